# 006_dump_restore: I1, I3 and I5 over dump and restore. Restored by a superuser, a database has every fence, grant
# and guard, and what was recorded of the source's identity; so its leases are over, and its next token is greater than
# all of the source. Restored by its owner, who is no superuser, it has the grants and the guards; what the owner may
# not restore, the two sequences and the fences, is named here error by error, and fast_forward is what cures it.
#
# Caught here: a table or sequence that the dump leaves out; grants that hang on the role that ran CREATE EXTENSION;
# a guard whose arguments do not survive; an owner who can no longer hand rights on; one more error than the manual
# says; a lease that somebody holds in two databases.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fencing_node('main');
$node->append_conf('postgresql.conf', "log_statement = none\n");
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE ROLE app_owner LOGIN;
CREATE ROLE worker LOGIN;
CREATE ROLE late_worker LOGIN;
CREATE DATABASE source OWNER app_owner;
CREATE DATABASE by_superuser OWNER app_owner;
CREATE DATABASE by_owner OWNER app_owner;
CREATE DATABASE by_owner_from_archive OWNER app_owner;
SQL

# As the owner: install, protect, hand on. As the worker: the quick start.
my $owner = FencingSession->new($node, dbname => 'source', user => 'app_owner');
$owner->get($_) foreach (
	'CREATE EXTENSION fencing',
	'CREATE SCHEMA app',
	'CREATE TABLE app.account (id int PRIMARY KEY, balance int, fence_token bigint)',
	'CREATE TABLE app.watched (id int PRIMARY KEY, fence_token bigint)',
	q(SELECT fencing.protect('app.account', 'fence_token', source => 'transaction')),
	q(SELECT fencing.protect('app.watched', 'fence_token', mode => 'observe', missing => 'allow')),
	'GRANT USAGE ON SCHEMA app TO worker, late_worker',
	'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA app TO worker, late_worker',
	'GRANT EXECUTE ON FUNCTION fencing.acquire, fencing.renew, fencing.release, fencing.next_token TO worker');
my $worker = FencingSession->new($node, dbname => 'source', user => 'worker');
my $held = $worker->get(q(SELECT token FROM fencing.acquire('job-held', '1 hour', 'worker 1')));
my $released = $worker->get(q(SELECT token FROM fencing.acquire('job-released', '1 hour')));
$worker->get("SELECT fencing.release('job-released', $released)");
$worker->get(qq(SELECT token FROM fencing.acquire(E'odd\\tname "x" \\\\ \x{c3}\x{a4}')));
$owner->get(q(SELECT fencing.advance('external', 5000)));
$worker->get('BEGIN');
$worker->get("SET LOCAL fencing.token = $released");
$worker->get('INSERT INTO app.account VALUES (1, 100)');
$worker->get('COMMIT');
my $highest = $worker->get('SELECT max(fencing.next_token()) FROM generate_series(1, 100)');

my $contents = 'SELECT * FROM fencing.fence ORDER BY resource';
my $position = 'SELECT last_value, is_called FROM fencing.token_seq';
my $origin = 'SELECT last_value FROM fencing.origin_seq';
my $acl = q(SELECT p.oid::regprocedure, acl FROM pg_proc p, unnest(proacl) acl WHERE pronamespace = 'fencing'::regnamespace
	UNION ALL SELECT c.oid::regclass, acl FROM pg_class c, unnest(relacl) acl WHERE relnamespace = 'fencing'::regnamespace
	UNION ALL SELECT oid::regnamespace, acl FROM pg_namespace, unnest(nspacl) acl WHERE nspname = 'fencing' ORDER BY 1, 2);
$acl =~ s/oid::(reg\w+), acl/oid::$1::text, acl::text/g;
my $triggers = q(SELECT tgrelid::regclass, pg_get_triggerdef(oid), tgenabled FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1, 2);
my %source = map { $_ => $node->safe_psql('source', $_) } $contents, $position, $origin, $acl, $triggers;

my $directory = PostgreSQL::Test::Utils::tempdir();
$node->command_ok(['pg_dump', '-Fc', '-U', app_superuser(), '-f', "$directory/superuser.dump", 'source'],
	'pg_dump by a superuser');
$node->command_ok(['pg_dump', '-U', 'app_owner', '-f', "$directory/owner.sql", 'source'],
	'pg_dump by the owner, who may read all of it');

sub app_superuser
{
	return $node->safe_psql('postgres', 'SELECT current_user');
}

# What a worker and the owner can do in a restored database, and what they cannot.
sub works_in
{
	my ($database, $above) = @_;
	my $session = FencingSession->new($node, dbname => $database, user => 'worker');
	my $token = $session->get('SELECT fencing.next_token()');
	cmp_ok($token, '>', $above, "$database: the next token is greater than all before");
	my $granted = $session->get(q(SELECT token FROM fencing.acquire('job-new', '1 hour')));
	cmp_ok($granted, '>', $token, "$database: the worker's grants have arrived: acquire");
	is($session->get("SELECT fencing.release('job-new', $granted)"), 't', '... release');
	is($session->state_of('SELECT fencing.fast_forward(1)'), '42501', '... and nothing more');
	is($session->state_of(q(UPDATE app.account SET balance = 1 WHERE id = 1)), 'TK002',
		"$database: the guard refuses a write without a token");
	$session->get('BEGIN');
	$session->get("SET LOCAL fencing.token = $held");
	is($session->state_of('UPDATE app.account SET balance = 1 WHERE id = 1'), 'TK001', '... and a stale one');
	$session->get('ROLLBACK');
	is($session->state_of('TRUNCATE app.account'), '42501', '... TRUNCATE is not the worker\'s');
	$session->close;

	my $own = FencingSession->new($node, dbname => $database, user => 'app_owner');
	is($own->state_of('TRUNCATE app.account'), 'TK002', '... and refused to the owner');
	$own->get('GRANT EXECUTE ON FUNCTION fencing.acquire TO late_worker');
	my $late = FencingSession->new($node, dbname => $database, user => 'late_worker');
	is($late->get(q(SELECT count(*) FROM fencing.acquire('job-late'))), '1', "$database: the owner can still hand on");
	is($own->state_of('SELECT fencing.prune()'), '00000', '... and use what is the owner\'s');
	is($own->state_of(q(SELECT fencing.protect('app.account', 'fence_token'))), '00000', '... and protect');
	is(FencingSession->new($node, dbname => $database)->state_of('DROP EXTENSION fencing'), '2BP01',
		'the extension is known to carry the guards');
	return;
}

# By a superuser: without a single error, everything as it was.
$node->command_ok(['pg_restore', '--exit-on-error', '-d', 'by_superuser', "$directory/superuser.dump"],
	'pg_restore by a superuser');
is($node->safe_psql('by_superuser', $contents), $source{$contents}, 'fences and leases are equal');
is($node->safe_psql('by_superuser', $position), $source{$position}, 'the position of the sequence is equal');
is($node->safe_psql('by_superuser', $acl), $source{$acl}, 'all privileges are equal');
is($node->safe_psql('by_superuser', $triggers), $source{$triggers}, 'all guards are equal');
is($node->safe_psql('by_superuser', $origin), $source{$origin}, 'the identity recorded is that of the source');

# The source's holder works on in the source. Here its lease is over, before anybody has drawn a token.
is($node->safe_psql('by_superuser', q(SELECT token, holder, expires_at FROM fencing.lookup('job-held'))), "$held||",
	'of a lease that was held the fence is left');
is($node->safe_psql('by_superuser', "SELECT fencing.renew('job-held', $held) IS NULL"), 't', '... its holder cannot renew it');
is($node->safe_psql('by_superuser', "SELECT fencing.release('job-held', $held)"), 'f', '... nor release it');
is(FencingSession->new($node, dbname => 'by_superuser')->state_of("SELECT fencing.bind('job-held', $held)"), 'TK001',
	'... and its token is stale');
is(FencingSession->new($node, dbname => 'by_superuser')->state_of(q(SELECT fencing.advance('external', 4999))), 'TK001',
	'a fence of tokens from elsewhere stands');
is($node->safe_psql('by_superuser', $origin), $source{$origin}, 'looking and refusing record nothing');
is($node->safe_psql('by_superuser', q(SELECT token FROM fencing.acquire('job-held'))), (65 << 40) + 1,
	'the first grant is of a later epoch: the source\'s, and 64, and the timeline');
isnt($node->safe_psql('by_superuser', $origin), $source{$origin}, '... and has recorded the new identity');
is($node->safe_psql('source', "SELECT fencing.renew('job-held', $held) IS NOT NULL"), 't', 'in the source the lease stands');
works_in('by_superuser', $highest);

# By the owner: each error is expected, and no other. The grants were made through pg_database_owner, so the dump
# says SET SESSION AUTHORIZATION before each of them, which only a superuser may. A plain script goes on with the
# GRANT itself, and the owner may do that; pg_restore sends both in one message, so that its grants need a second
# pass through psql.
my %refused = (
	'permission denied for table fence' => 1,
	'permission denied for sequence token_seq' => 1,
	'permission denied for sequence origin_seq' => 1);
my $granted = 4;
my $authorization = 'permission denied to set session authorization "pg_database_owner"';

sub as_owner
{
	my (@command) = @_;
	my ($out, $err) = ('', '');
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	IPC::Run::run(\@command, '>', \$out, '2>', \$err);
	my %count;
	$count{$_}++ foreach $err =~ /ERROR:\s+(.*)/g;
	return ($out, $err, %count);
}

sub restored_by_owner
{
	my ($database) = @_;
	is($node->safe_psql($database, $acl), $source{$acl}, "$database: all privileges are equal all the same");
	is($node->safe_psql($database, $triggers), $source{$triggers}, '... all guards');
	is($node->safe_psql($database, 'SELECT count(*) FROM app.account'), '1', '... and the rows of the application are there');
	is($node->safe_psql($database, 'SELECT count(*) FROM fencing.fence'), '0', '... the fences are not');

	# The operator's step: past everything that was issued.
	my $own = FencingSession->new($node, dbname => $database, user => 'app_owner');
	is($own->get("SELECT fencing.fast_forward($highest)"), $highest, 'the owner moves the sequence past what was issued');
	$own->close;
	works_in($database, $highest);
	return;
}

{
	my ($out, $err, %errors) = as_owner('psql', '-XAtq', '-U', 'app_owner', '-d', 'by_owner', '-f', "$directory/owner.sql");
	is_deeply(\%errors, { %refused, $authorization => $granted },
		'a plain dump read by psql as the owner: the expected errors') or diag($err);
	restored_by_owner('by_owner');
}

{
	my ($out, $err, %errors) = as_owner('pg_restore', '-U', 'app_owner', '-d', 'by_owner_from_archive',
		"$directory/superuser.dump");
	is_deeply(\%errors, { %refused, $authorization => $granted }, 'pg_restore by the owner: the expected errors') or diag($err);
	isnt($node->safe_psql('by_owner_from_archive', $acl), $source{$acl},
		'pg_restore loses the grants with the error before them');

	my ($list) = as_owner('pg_restore', '-l', "$directory/superuser.dump");
	unlike($list, qr/^(?!;).*ACL fencing (TABLE|SEQUENCE)/m, 'the dump repeats no grant of the install script');
	append_to_file("$directory/grants.list", join '', grep { / ACL / } split /^/, $list);
	as_owner('pg_restore', '-L', "$directory/grants.list", '-f', "$directory/grants.sql", "$directory/superuser.dump");
	($out, $err, %errors) = as_owner('psql', '-XAtq', '-U', 'app_owner', '-d', 'by_owner_from_archive', '-f',
		"$directory/grants.sql");
	is_deeply(\%errors, { $authorization => $granted }, 'the grants once more, by psql: the expected errors') or diag($err);
	restored_by_owner('by_owner_from_archive');
}

done_testing();
