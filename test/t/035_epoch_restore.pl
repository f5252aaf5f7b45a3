# 035_epoch_restore: I1 and I5 when the restored database and its source both go on. Whatever the source issues after
# the dump, also after 64 promotions that the dump knows nothing of, lies below the first token of the restored
# database; a restore of a restore lies beyond both; and no holder is left with a lease in two databases. Full and
# data-only, custom and plain, as superuser and as owner, into the same cluster and into another. Where the server
# cannot see it (a restore that the owner made, a re-created extension, two restores of one dump), the collision is
# shown, and what the operator does about it.
#
# Caught here: a restored sequence that goes on from its position; a jump that is relative ("the next epoch"), which the
# source's next promotion catches up with; a record that is left out of the dump or dropped by a data-only restore.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

# What the operator adds to the highest number that is known: more than the source can issue (README.md).
my $margin = 'SELECT fencing.fast_forward(%d + (100::bigint << 40))';

my $node = fencing_node('main');
$node->start;
# Not from a template, which has one system identifier for all.
my $other = fencing_node('other', force_initdb => 1);
$other->start;
$_->safe_psql('postgres', 'CREATE ROLE app_owner LOGIN; CREATE ROLE worker LOGIN') foreach $node, $other;
$node->safe_psql('postgres', 'CREATE DATABASE source OWNER app_owner');

my $owner = FencingSession->new($node, dbname => 'source', user => 'app_owner');
$owner->get($_) foreach (
	'CREATE EXTENSION fencing',
	'CREATE TABLE account (id int PRIMARY KEY, balance int, fence_token bigint)',
	'CREATE TABLE task (id int PRIMARY KEY, job int, state text, fence_token bigint)',
	'CREATE TABLE shard (id int PRIMARY KEY, payload text, fence_token bigint)',
	q(SELECT fencing.protect('account', 'fence_token')),
	q(SELECT fencing.protect('task', 'fence_token', resource => 'job-{job}')),
	q(SELECT fencing.protect('shard', 'fence_token', resource => 'shard-{id}', issuer => 'external')));
my $held = $owner->get(q(SELECT token FROM fencing.acquire('job-1', '1 hour', 'worker 1')));
$owner->get("INSERT INTO account VALUES (1, 100, $held)");
$owner->get("INSERT INTO task VALUES (1, 1, 'new', $held)");
$owner->get(q(INSERT INTO shard VALUES (1, 'new', 5000)));    # raises the fence at COMMIT
my $at_dump = $owner->get('SELECT max(fencing.next_token()) FROM generate_series(1, 50)');

my $directory = PostgreSQL::Test::Utils::tempdir();
my $superuser = $node->safe_psql('postgres', 'SELECT current_user');
$node->command_ok(['pg_dump', @$_, 'source'], "pg_dump @$_[0 .. 1]") foreach (
	['-Fc', '-U', $superuser, '-f', "$directory/full.dump"],
	['-Fp', '-U', $superuser, '-f', "$directory/full.sql"],
	['-Fp', '-U', 'app_owner', '-f', "$directory/owner.sql"]);
my $record = $owner->get('SELECT last_value FROM fencing.origin_seq');
is($owner->get('SELECT max(fencing.next_token()) FROM generate_series(1, 1000)'), $at_dump + 1000,
	'the source goes on, past what was logged ahead');

# Feed a program's output, or a file, to the server; the number of each kind of error.
sub errors_of
{
	my ($server, @command) = @_;
	my ($out, $err) = ('', '');
	local $ENV{PGHOST} = $server->host;
	local $ENV{PGPORT} = $server->port;
	IPC::Run::run(\@command, '>', \$out, '2>', \$err);
	my %count;
	$count{$_}++ foreach $err =~ /ERROR:\s+(.*)/g;
	return \%count;
}

# The source's tokens are stale here, before anything has been drawn; what belongs to elsewhere is as it was.
sub tenures_have_ended
{
	my ($server, $database) = @_;
	my $session = FencingSession->new($server, dbname => $database);
	is($session->get(q(SELECT token, holder FROM fencing.lookup('job-1'))), "$held|", "$database: the fence, and no lease");
	is($session->get("SELECT fencing.renew('job-1', $held) IS NULL"), 't', '... renew says lost');
	is($session->get("SELECT fencing.release('job-1', $held)"), 'f', '... release says no');
	is($session->state_of("SELECT fencing.bind('job-1', $held)"), 'TK001', '... bind is stale');
	is($session->state_of("UPDATE task SET state = 'late', fence_token = $held WHERE id = 1"), 'TK001', '... and a guarded write');
	like($session->errors, qr/Epoch 0 of the token has ended: .* in epoch 65\./, '... which says why');
	is($session->state_of(q(UPDATE shard SET payload = 'late', fence_token = 4999 WHERE id = 1)), 'TK001',
		'... the fence of tokens from elsewhere stands');
	is($session->state_of(q(UPDATE shard SET payload = 'same', fence_token = 5000 WHERE id = 1)), '00000',
		'... and knows no epoch');
	is($session->get('SELECT last_value FROM fencing.origin_seq'), $record, '... nothing is recorded by looking');
	$session->close;
	return;
}

# The first draw and what follows: a new holder works, and a second backend goes on by one.
sub goes_on
{
	my ($server, $database, $first) = @_;
	my $session = FencingSession->new($server, dbname => $database);
	is($session->get(q(SELECT token FROM fencing.acquire('job-1', '1 hour', 'worker 2'))), $first,
		"$database: the lease is free, its token the first of the epoch");
	is($session->state_of("UPDATE task SET state = 'done', fence_token = $first WHERE id = 1"), '00000', '... it writes');
	is($session->state_of("UPDATE account SET balance = 1, fence_token = $held WHERE id = 1"), '00000',
		'... a row fence knows rows and no epochs');
	is($session->state_of("UPDATE account SET balance = 2, fence_token = $first WHERE id = 1"), '00000',
		'... and takes the new token');
	is($server->safe_psql($database, 'SELECT fencing.next_token()'), $first + 1, '... another backend draws the next');
	$session->close;
	return;
}

# ---- by a superuser

my $first = (65 << 40) + 1;    # epoch 0 of the source, and 64, and timeline 1
foreach my $case (
	[$node, 'custom_same', 'pg_restore', '--exit-on-error', '-d', 'custom_same', "$directory/full.dump"],
	[$node, 'plain_same', 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', 'plain_same', '-f', "$directory/full.sql"],
	[$other, 'custom_other', 'pg_restore', '--exit-on-error', '-d', 'custom_other', "$directory/full.dump"],
	[$other, 'plain_other', 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', 'plain_other', '-f', "$directory/full.sql"])
{
	my ($server, $database, @command) = @$case;
	$server->safe_psql('postgres', "CREATE DATABASE $database OWNER app_owner");
	is_deeply(errors_of($server, @command), {}, "$database: restored by a superuser without an error");
	tenures_have_ended($server, $database);
	goes_on($server, $database, $first);
}

# Data alone, into an extension that has just been created. The rows of the application would fire the guards.
foreach my $server ($node, $other)
{
	$server->safe_psql('postgres', 'CREATE DATABASE data_only OWNER app_owner');
	is_deeply(errors_of($server, 'pg_restore', '--exit-on-error', '-s', '-d', 'data_only', "$directory/full.dump"), {},
		'the schema alone is restored');
	is($server->safe_psql('data_only', 'SELECT last_value, is_called FROM fencing.token_seq'), '1|f', '... its sequence is new');
	local $ENV{PGOPTIONS} = '-c fencing.enforcement=off';
	is_deeply(errors_of($server, 'pg_restore', '--exit-on-error', '-a', '-d', 'data_only', "$directory/full.dump"), {},
		'... and the data alone, without the guards');
	delete local $ENV{PGOPTIONS};
	tenures_have_ended($server, 'data_only');
	goes_on($server, 'data_only', $first);
}

# ---- the source is not touched by all this

is($owner->get("SELECT fencing.renew('job-1', $held) IS NOT NULL"), 't', 'the source: the lease stands');
is($owner->state_of("UPDATE task SET state = 'working', fence_token = $held WHERE id = 1"), '00000', '... and its holder writes');
is($owner->get('SELECT fencing.next_token()'), $at_dump + 1001, '... the next token is the next');
# As 64 promotions would do, in less time.
is($owner->get('SELECT fencing.fast_forward(64::bigint << 40)'), 64 << 40, '... after 64 changes of epoch');
cmp_ok($owner->get('SELECT fencing.next_token()'), '<', $first, '... it is still below all that the copies have issued');

# ---- a restore of a restore

sub restored_as
{
	my ($from, $to) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $to OWNER app_owner");
	errors_of($node, 'pg_dump', '-Fc', '-f', "$directory/$to.dump", $from);
	is_deeply(errors_of($node, 'pg_restore', '--exit-on-error', '-d', $to, "$directory/$to.dump"), {}, "$from restored as $to");
	return;
}

sub lease_is_over
{
	my ($database) = @_;
	is($node->safe_psql($database, "SELECT fencing.renew('job-1', $held) IS NULL"), 't', "$database: the lease is over");
	return;
}

sub draw
{
	my ($database, $count) = @_;
	return split /\n/, $node->safe_psql($database, "SELECT fencing.next_token() FROM generate_series(1, $count)");
}

restored_as('custom_same', 'second');
is((draw('second', 1))[0], (130 << 40) + 1, 'a restore of a restore that has issued: 64 epochs and the timeline further');
is((draw('custom_same', 1))[0], $first + 2, '... where it came from goes on');
restored_as('second', 'third');
is((draw('third', 1))[0], (195 << 40) + 1, '... and once more');

# What no server can see: two changes of identity with no draw between them, and two restores of one dump.
$node->safe_psql('postgres', 'CREATE DATABASE unseen OWNER app_owner');
errors_of($node, 'pg_restore', '-d', 'unseen', "$directory/full.dump");
restored_as('unseen', 'unseen_second');
is((draw('unseen_second', 1))[0], (draw('unseen', 1))[0],
	'a restore of a restore that had drawn nothing: both issue the same token');
my $seen = (draw('unseen', 50))[-1];
is($node->safe_psql('unseen_second', sprintf($margin, $seen)), $seen + (100 << 40), '... the step of the operator, in one of them');
cmp_ok((draw('unseen_second', 1))[0], '>', (draw('unseen', 500))[-1], '... puts it beyond the other');
is($node->safe_psql('unseen_second', q(SELECT count(*) FROM fencing.acquire('job-1'))), '1', '... where every lease is over');

# In its place, while a session is open: the extension is dropped and comes back, so its sequence is another.
sub restored_in_place
{
	my ($name) = @_;
	is_deeply(
		errors_of($node, 'pg_restore', '--clean', '--if-exists', '--exit-on-error', '-d', 'source', "$directory/full.dump"),
		{}, $name);
	return $owner->get('SELECT fencing.next_token()');
}

is(restored_in_place('the source restored in its place'), $first, '... an open session goes on beyond all that it has issued');
lease_is_over('source');
my $issued = $owner->get('SELECT max(fencing.next_token()) FROM generate_series(1, 500)');
is(restored_in_place('... and once more from the same dump'), $first, '... no server can see that: the same tokens again');
is($owner->get(sprintf($margin, $issued)), $issued + (100 << 40), '... the step of the operator, past what the first restore issued');
is($owner->get('SELECT fencing.next_token()'), $issued + (100 << 40) + 1, '... cures it');

# ---- by the owner, who installed the extension and is no superuser

my %refused = map { ("permission denied for $_" => 1) } 'table fence', 'sequence token_seq', 'sequence origin_seq';

sub step_of_the_owner
{
	my ($database, $highest) = @_;
	my $own = FencingSession->new($other, dbname => $database, user => 'app_owner');
	is($own->get('SELECT count(*) FROM fencing.fence'), '0', "$database: no fence has arrived");
	cmp_ok($own->get('SELECT fencing.next_token()'), '<=', $highest, '... and a token is issued again');
	my $again = $own->get(q(SELECT token FROM fencing.acquire('job-1', '1 hour')));
	cmp_ok($again, '<=', $highest, '... also to a holder');
	# From the application's rows, and by what the source can have issued since.
	my $known = $own->get('SELECT greatest((SELECT max(fence_token) FROM account), (SELECT max(fence_token) FROM task))');
	is($own->get(sprintf($margin, $known)), $known + (100 << 40), '... the owner moves it on');
	is($own->get(q(SELECT count(*) FROM fencing.lookup('job-1') WHERE holder IS NULL AND expires_at IS NULL)), '1',
		'... that ends the lease granted too early');
	is($own->get("SELECT fencing.renew('job-1', $again) IS NULL"), 't', '... its holder learns it from renew');
	my $token = $own->get(q(SELECT token FROM fencing.acquire('job-1', '1 hour')));
	cmp_ok($token, '>', (99 << 40) + $highest, '... the next token is beyond all of the source');
	is($own->state_of("UPDATE task SET state = 'done', fence_token = $token WHERE id = 1"), '00000', '... it writes');
	is($own->state_of("UPDATE account SET balance = 3, fence_token = $token WHERE id = 1"), '00000', '... row fences as well');
	is($own->state_of("UPDATE account SET balance = 4, fence_token = $held WHERE id = 1"), 'TK001', '... which stand');
	is($own->state_of("UPDATE task SET state = 'late', fence_token = $again WHERE id = 1"), 'TK001',
		'... what was issued again is stale');
	return;
}

$other->safe_psql('postgres', "CREATE DATABASE $_ OWNER app_owner") foreach 'by_owner', 'by_owner_data';
is_deeply(errors_of($other, 'psql', '-XAtq', '-U', 'app_owner', '-d', 'by_owner', '-f', "$directory/owner.sql"), \%refused,
	'restored by the owner: the position, the record and the fences are refused, and nothing else');
step_of_the_owner('by_owner', $at_dump + 1000);

# Data alone: the owner cannot switch the guards off, but can take them away and put them back.
is_deeply(errors_of($other, 'pg_restore', '-s', '-U', 'app_owner', '-d', 'by_owner_data', "$directory/full.dump"), {},
	'the schema alone, by the owner');
my $own = FencingSession->new($other, dbname => 'by_owner_data', user => 'app_owner');
is_deeply(errors_of($other, 'pg_restore', '-a', '-t', 'task', '-U', 'app_owner', '-d', 'by_owner_data', "$directory/full.dump"),
	{ 'fencing token was never issued for resource "job-1"' => 1 }, '... the guard refuses the rows of a resource unknown');
$own->get("SELECT fencing.unprotect('$_')") foreach 'account', 'task', 'shard';
is_deeply(errors_of($other, 'pg_restore', '-a', '-U', 'app_owner', '-d', 'by_owner_data', "$directory/full.dump"), \%refused,
	'... without the guards: the same three errors');
$own->get($_) foreach (
	q(SELECT fencing.protect('account', 'fence_token')),
	q(SELECT fencing.protect('task', 'fence_token', resource => 'job-{job}')));
$own->close;
step_of_the_owner('by_owner_data', $at_dump + 1000);

# ---- a re-created extension

my $dropped = $first + 1;
my $session = FencingSession->new($node, dbname => 'plain_same');
$session->get(q(SELECT fencing.unprotect('task'), fencing.unprotect('account'), fencing.unprotect('shard')));
$session->get('DROP EXTENSION fencing');
$session->get('CREATE EXTENSION fencing');
$session->get($_) foreach (
	q(SELECT fencing.protect('account', 'fence_token')),
	q(SELECT fencing.protect('task', 'fence_token', resource => 'job-{job}')));
my $token = $session->get(q(SELECT token FROM fencing.acquire('job-1')));
is($token, 1, 'a re-created extension begins with token 1');
is($session->state_of("UPDATE account SET balance = 5, fence_token = $token WHERE id = 1"), 'TK001', '... the rows refuse it');
is($session->get("SELECT fencing.fast_forward((SELECT max(fence_token) FROM account) + (1::bigint << 40))"), $first + (1 << 40),
	'... the step of the operator: nothing is issued any more by what was dropped');
is($session->get(q(SELECT token FROM fencing.acquire('job-1'))), $first + (1 << 40) + 1, '... the lease of before is over');
cmp_ok($session->get('SELECT fencing.next_token()'), '>', $dropped, '... the next token is greater than all that were dropped');
$token = $session->get(q(SELECT token FROM fencing.lookup('job-1')));
is($session->state_of("UPDATE account SET balance = 5, fence_token = $token WHERE id = 1"), '00000', '... and the rows take it');
is($session->state_of("UPDATE task SET state = 'anew', fence_token = $token WHERE id = 1"), '00000', '... both kinds');

# Its data alone, brought back from a dump into the extension created anew: another sequence, another identity.
errors_of($node, 'pg_dump', '-Fc', '-a', '-t', 'fencing.*', '-f', "$directory/before.dump", 'plain_same');
$issued = $session->get('SELECT max(fencing.next_token()) FROM generate_series(1, 500)');
$session->get(q(SELECT fencing.unprotect('task'), fencing.unprotect('account')));
$session->get('DROP EXTENSION fencing');
$session->get('CREATE EXTENSION fencing');
is_deeply(errors_of($node, 'pg_restore', '--exit-on-error', '-d', 'plain_same', "$directory/before.dump"), {},
	'the data of before restored into a re-created extension');
is($session->get('SELECT fencing.next_token()'), (131 << 40) + 1, '... is another identity');
cmp_ok((131 << 40) + 1, '>', $issued, '... beyond what was issued after the dump');
is($session->get("SELECT fencing.renew('job-1', $token) IS NULL"), 't', '... and the lease is over');

done_testing();
