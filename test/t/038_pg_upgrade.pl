# 038_pg_upgrade: I1 and I5 over pg_upgrade, from the next older server that is installed with its development files, or
# else from the same one, which is as much a change of identity. The fences, the rows, the guards and the grants are as
# they were; the next token is greater than all that the old server issued, and goes on to issue should somebody start
# it again; every lease is over, and its token stale.
#
# Caught here: a sequence that begins anew or goes on from its position; a record that pg_upgrade leaves out; a library
# that the new server cannot load for the old one's functions; an identity that survives the upgrade.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $new_bin = qx(pg_config --bindir);
chomp $new_bin;
my ($major) = qx(pg_config --version) =~ /(\d+)/;

# The bin folder of the server to upgrade from.
sub older_server
{
	foreach my $older (reverse 14 .. $major - 1)
	{
		my $bin = "/usr/lib/postgresql/$older/bin";
		return ($bin, $older) if -e "$bin/postgres" && -e "/usr/include/postgresql/$older/server/postgres.h";
	}
	return ($new_bin, $major);
}

my ($old_bin, $older) = older_server();
my $old = PostgreSQL::Test::Cluster->new('old', $old_bin eq $new_bin ? () : (install_path => $old_bin =~ s{/bin$}{}r));
# Not from a template, which is of the newer server.
$old->init(force_initdb => 1);
$old->append_conf('postgresql.conf', $old_bin eq $new_bin ? fencing_conf() : build_conf("$old_bin/pg_config"));
$old->start;
note("from $older to $major");

$old->safe_psql('postgres', 'CREATE ROLE app_owner LOGIN; CREATE ROLE worker LOGIN; CREATE DATABASE app OWNER app_owner');
my $owner = FencingSession->new($old, dbname => 'app', user => 'app_owner');
$owner->get($_) foreach (
	'CREATE EXTENSION fencing',
	'CREATE TABLE account (id int PRIMARY KEY, balance int, fence_token bigint)',
	'CREATE TABLE task (id int PRIMARY KEY, job int, state text, fence_token bigint)',
	'CREATE TABLE shard (id int PRIMARY KEY, payload text, fence_token bigint)',
	q(SELECT fencing.protect('account', 'fence_token')),
	q(SELECT fencing.protect('task', 'fence_token', resource => 'job-{job}')),
	q(SELECT fencing.protect('shard', 'fence_token', resource => 'shard-{id}', issuer => 'external')),
	'ALTER TABLE shard ENABLE ALWAYS TRIGGER zz_fencing_guard',
	'GRANT EXECUTE ON FUNCTION fencing.acquire, fencing.renew TO worker',
	'GRANT ALL ON account, task TO worker',
	# As after three promotions; pg_upgrade begins at timeline 1 again.
	'SELECT fencing.fast_forward(3::bigint << 40)');
my $worker = FencingSession->new($old, dbname => 'app', user => 'worker');
my $held = $worker->get(q(SELECT token FROM fencing.acquire('job-1', '1 hour', 'worker 1')));
is($held >> 40, 3, 'the old server is in an epoch of its own');
$worker->get("INSERT INTO account VALUES (1, 100, $held)");
$worker->get("INSERT INTO task VALUES (1, 1, 'new', $held)");
$owner->get(q(INSERT INTO shard VALUES (1, 'new', 5000)));
my $highest = $owner->get('SELECT max(fencing.next_token()) FROM generate_series(1, 1000)');

my %kept = (
	'the fences' => 'SELECT * FROM fencing.fence ORDER BY resource',
	'the position of the sequence' => 'SELECT last_value, is_called FROM fencing.token_seq',
	'the identity recorded' => 'SELECT last_value FROM fencing.origin_seq',
	'the guards' => 'SELECT tgrelid::regclass, pg_get_triggerdef(oid), tgenabled FROM pg_trigger
		WHERE NOT tgisinternal ORDER BY 1, 2',
	'the grants' => q(SELECT p.oid::regprocedure::text, acl::text FROM pg_proc p, unnest(proacl) acl
		WHERE pronamespace = 'fencing'::regnamespace ORDER BY 1, 2));
my %before = map { $_ => $old->safe_psql('app', $kept{$_}) } keys %kept;
$_->close foreach $owner, $worker;
$old->stop;

my $new = PostgreSQL::Test::Cluster->new('new');
# Nor this one: a template has one system identifier for all.
$new->init(force_initdb => 1, $older < 18 && $major >= 18 ? (extra => ['--no-data-checksums']) : ());
$new->append_conf('postgresql.conf', fencing_conf());
chdir PostgreSQL::Test::Utils::tempdir() or die "could not change the folder: $!";    # it writes scripts there
command_ok(
	[   'pg_upgrade', '-d', $old->data_dir, '-D', $new->data_dir, '-b', $old_bin, '-B', $new_bin,
		'-s', $new->host, '-p', $old->port, '-P', $new->port ],
	"pg_upgrade from $older to $major");
$new->start;

is($new->safe_psql('app', $kept{$_}), $before{$_}, "$_: as before") foreach sort keys %kept;

# Before anything has been drawn, and by looking alone.
$worker = FencingSession->new($new, dbname => 'app', user => 'worker');
is($worker->get(q(SELECT token, holder, expires_at FROM fencing.lookup('job-1'))), "$held||", 'of a lease the fence is left');
is($worker->get("SELECT fencing.renew('job-1', $held) IS NULL"), 't', '... its holder learns it from renew');
is($worker->state_of("UPDATE task SET state = 'late', fence_token = $held WHERE id = 1"), 'TK001', '... and from the guard');
like($worker->errors, qr/Epoch 3 of the token has ended: .* in epoch 68\./, '... which says why');
is($worker->state_of('UPDATE account SET balance = 0 WHERE id = 1'), 'TK002', 'a row fence wants a token');
is($worker->state_of("UPDATE account SET balance = 90, fence_token = $held - 1 WHERE id = 1"), 'TK001', '... not a lower one');
is($worker->state_of("UPDATE account SET balance = 90, fence_token = $held WHERE id = 1"), '00000', '... and knows no epoch');
is($worker->state_of('TRUNCATE account'), 'TK002', 'TRUNCATE is refused');
$owner = FencingSession->new($new, dbname => 'app', user => 'app_owner');
is($owner->state_of(q(UPDATE shard SET payload = 'late', fence_token = 4999 WHERE id = 1)), 'TK001',
	'a fence of tokens from elsewhere stands');
is($owner->state_of(q(UPDATE shard SET payload = 'same', fence_token = 5000 WHERE id = 1)), '00000', '... and knows no epoch');
is($owner->state_of("SELECT fencing.bind('job-1', $held)"), 'TK001', 'bind is stale');
is($new->safe_psql('app', $kept{'the identity recorded'}), $before{'the identity recorded'},
	'nothing has been recorded by looking');

my $first = (68 << 40) + 1;    # epoch 3, and 64, and timeline 1
is($worker->get(q(SELECT token FROM fencing.acquire('job-1', '1 hour', 'worker 2'))), $first,
	'the lease is free, its token the first of the epoch');
is($worker->state_of("UPDATE task SET state = 'done', fence_token = $first WHERE id = 1"), '00000', '... its holder writes');
is($worker->state_of("UPDATE account SET balance = 80, fence_token = $first WHERE id = 1"), '00000', '... row fences as well');
is($owner->get('SELECT fencing.next_token()'), $first + 1, '... another backend draws the next');
is($owner->state_of('ALTER EXTENSION fencing UPDATE'), '42501',
	'the extension belongs to who ran pg_upgrade, and not to the owner');
is(FencingSession->new($new, dbname => 'app')->state_of('ALTER EXTENSION fencing UPDATE'), '00000', '... who can update it');
is(FencingSession->new($new, dbname => 'app')->state_of('DROP EXTENSION fencing'), '2BP01', '... and is known to carry the guards');

# pg_upgrade without --link leaves the old server as it was.
$new->stop;
$old->start;
my $still = $old->safe_psql('app', 'SELECT fencing.next_token()');
is($still, $highest + 1, 'the old server, started again, goes on with the next token');
cmp_ok($still, '<', $first, '... below all of the new one');

done_testing();
