# 026_seal_locks: whose locks they are. Users' advisory locks, on random keys and on the very numbers that stand in our
# tags, never collide with the locks of resources, whoever holds which. From the seal to its end, also prepared, a
# transaction keeps DROP EXTENSION away; a session that could not drop it, and one that commits after it was dropped,
# go on.
#
# Caught here: a lock in the advisory key space, or in the space of a catalog; a fence table that can be dropped under
# a sealed transaction, or after a claim and before its commit.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $slack = 2;

my $node = fencing_node('main');
$node->append_conf('postgresql.conf', "max_prepared_transactions = 10\nlog_statement = none\nautovacuum = off\n");
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fencing;
CREATE TABLE task (n int, fence_token bigint);
SELECT fencing.protect('task', 'fence_token', resource => 'job-{n}', issuer => 'external');
CREATE TABLE plain (n int);
CREATE FUNCTION granted(resource text) RETURNS bigint LANGUAGE sql AS $$
	SELECT token FROM fencing.acquire(resource, '1 hour', steal => 'always')
$$;
SQL
my ($session, $user, $other) = map { FencingSession->new($node) } 1 .. 3;
my $ours = q(locktype = 'object' AND classid = 'fencing.fence'::regclass);

# A transaction that holds our locks in every mode: a few resources one by one, shared and exclusively; then very many,
# in whole buckets. Beside it one that is granted a resource, whose locks are exclusive too.
my $token = $session->get(q(SELECT granted('bound')));
$session->get(q(SELECT fencing.advance('job-1', 10)));
$session->get("BEGIN; SELECT fencing.bind('bound', $token); INSERT INTO task VALUES (1, 10), (2, 10), (3, 10)");
is($session->state_of(q(PREPARE TRANSACTION 'few')), '00000', 'a transaction over four resources is prepared');
$session->get('BEGIN');
$session->get(q(SELECT granted('granted')));
my $tags = $other->get("SELECT DISTINCT classid, objid, objsubid FROM pg_locks WHERE $ours");
cmp_ok(scalar(split /\n/, $tags), '>=', 8, 'our locks, by their tags');

# Every number that stands in them, as advisory keys: bigint, and pairs of int, in all sensible arrangements.
$user->get(<<"SQL");
CREATE TEMP TABLE tag AS SELECT DISTINCT classid::bigint AS class, objid::bigint AS object, objsubid::bigint AS part, database::bigint AS database
	FROM pg_locks WHERE $ours;
CREATE TEMP TABLE key AS
	SELECT DISTINCT k.high, k.low FROM tag, LATERAL (VALUES (class, object), (object, class), (database, object), (0, object), (0, class), (object, part),
		(class, part), (part, object), (part, class), (database, class), (0, part)) k (high, low);
INSERT INTO key SELECT (random() * 4294967295)::bigint, (random() * 4294967295)::bigint FROM generate_series(1, 500);
CREATE FUNCTION pg_temp.int_of(bigint) RETURNS int LANGUAGE sql AS 'SELECT (\$1 - CASE WHEN \$1 >= 2147483648 THEN 4294967296 ELSE 0 END)::int';
SQL
my $both = q(pg_try_advisory_lock%1$s((high << 32) | low) AND pg_try_advisory_lock%1$s(pg_temp.int_of(high), pg_temp.int_of(low)));
foreach my $mode ('', '_shared')
{
	is($user->get(sprintf "SELECT bool_and($both) FROM key", $mode), 't', "users' advisory locks$mode are had while ours are held");
	# And the other way round.
	is($other->get(q(SELECT count(*) FROM fencing.acquire('granted', steal => 'always')), 30), '0', '... ours still exclude us');
	is($session->state_of('COMMIT'), '00000', '... a grant commits beside them');
	is($session->state_of(q(COMMIT PREPARED 'few')), '00000', '... and what was prepared');
	cmp_ok($user->get(q(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')), '>', 1000, '... all of them are held');
	is($other->get(q(SELECT count(*) FROM fencing.acquire('granted', steal => 'always')), 30), '1', '... a resource is granted at once');
	$token = $other->get(q(SELECT granted('bound')));
	foreach my $job (1 .. 3)
	{
		is($other->get("SELECT fencing.advance('job-$job', 20)", 30), '20', '... a fence raised');
		$other->get("SELECT fencing.forget('job-$job')");
	}
	$other->get("BEGIN; SELECT fencing.bind('bound', $token); INSERT INTO task VALUES (1, 10), (2, 10), (3, 10)");
	is($other->state_of('COMMIT', 30), '00000', '... and a transaction over four resources commits');
	$other->get('BEGIN; INSERT INTO task SELECT n, 10 FROM generate_series(1, 300) n');
	is($other->state_of('COMMIT', 30), '00000', '... as does one over 300');
	$user->get('SELECT pg_advisory_unlock_all()');

	$other->get("SELECT fencing.forget('job-' || n) FROM generate_series(1, 300) n");
	$session->get("BEGIN; SELECT fencing.bind('bound', $token); INSERT INTO task VALUES (1, 10), (2, 10), (3, 10)");
	$session->get(q(PREPARE TRANSACTION 'few'));
	$session->get('BEGIN');
	$session->get(q(SELECT granted('granted')));
}
$session->get('ROLLBACK');
is($session->state_of(q(ROLLBACK PREPARED 'few')), '00000', 'the last one is rolled back');
is($other->get(q(SELECT count(*) FROM pg_locks WHERE locktype IN ('object', 'advisory'))), '0', 'no lock is left');

# DROP EXTENSION.
my $drop = 'DROP EXTENSION fencing CASCADE';
$other->get(q(SET lock_timeout = '500 ms'; SET client_min_messages = error));
foreach my $case (['bound', "SELECT fencing.bind('bound', %s)"], ['written', 'INSERT INTO task VALUES (1, 10)'])
{
	my ($name, $work) = @$case;
	$token = $session->get(q(SELECT granted('bound')));
	$session->get('BEGIN');
	$session->get(sprintf $work, $token);
	is($other->state_of($drop, 30), '55P03', "DROP EXTENSION waits for a transaction that has $name");
	is($session->state_of(q(PREPARE TRANSACTION 'sealed')), '00000', '... which is prepared');
	is($other->state_of($drop, 30), '55P03', '... where it still waits');
	is($other->get(q(SELECT count(*) FROM fencing.lookup('bound'))), '1', '... the extension is there');
	is($session->state_of(q(COMMIT PREPARED 'sealed')), '00000', '... the transaction is committed');
}

# Dropped by the transaction itself, after its claim.
$token = $session->get(q(SELECT granted('bound')));
$session->get("SET client_min_messages = error; BEGIN; SELECT fencing.bind('bound', $token); INSERT INTO plain VALUES (1)");
is($session->state_of($drop), '00000', 'a transaction that is bound drops the extension itself');
isnt($session->state_of('COMMIT'), '00000', '... and cannot be sealed any more');
is($other->get(q(SELECT count(*) FROM fencing.lookup('bound'))), '1', '... so the extension is there');
is($other->get('SELECT count(*) FROM plain'), '0', '... and what it wrote is not');

is($other->state_of($drop), '00000', 'with nothing sealed it can be dropped');
is($session->state_of('INSERT INTO plain VALUES (2)'), '00000', 'the sessions go on without it');
is($session->state_of('CREATE EXTENSION fencing'), '00000', '... and with a new one');
$token = $session->get(q(SELECT token FROM fencing.acquire('bound', '1 hour')));
$other->get("BEGIN; SELECT fencing.bind('bound', $token)");
is($session->get(q(SELECT count(*) FROM fencing.acquire('bound', steal => 'always'))), '1', '... where a take-over');
is($other->state_of('COMMIT'), 'TK001', '... is seen as before');
is($other->get(q(SELECT count(*) FROM pg_locks WHERE locktype IN ('object', 'advisory'))), '0', 'no lock is left in the end');

done_testing();
