# 042_shared_memory: what the library keeps in shared memory when it is preloaded, and on 17 and later also when it is not:
# fencing.refusals survives the rollback that a refusal causes, is bounded, shows the newest first, and never loses the
# newest in a storm; fencing.stats counts; who waits for a resource is woken. Without shared memory the two views say
# so, and everything else works.
#
# Caught here: a refusal that is not recorded on one of its ways (a row, a resource, bind, COMMIT, observed); fields that
# are mixed up; refusals of other databases shown to whoever owns one; a storm whose last refusal is overwritten by an older
# one; a waiter that cannot be cancelled or whose wait does not end; a path that counts nothing, or twice.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $setup = <<'SQL';
CREATE EXTENSION fencing;
CREATE TABLE account (id int PRIMARY KEY, balance int, fence_token bigint);
SELECT fencing.protect('account', 'fence_token');
INSERT INTO account VALUES (1, 100, 10), (2, 100, 10);
CREATE SCHEMA "Odd one";
CREATE TABLE "Odd one".task (id int PRIMARY KEY, note text);
SELECT fencing.protect('"Odd one".task', resource => 'task-{id}');
SQL

my $node = fencing_node('preloaded');
$node->append_conf('postgresql.conf', preload_conf() . "log_statement = none\nlisten_addresses = '127.0.0.1'\n");
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE ROLE owner LOGIN;
CREATE ROLE watcher LOGIN IN ROLE pg_monitor;
CREATE ROLE worker LOGIN;
CREATE DATABASE other OWNER owner;
SQL
$node->safe_psql($_, $setup) foreach qw(postgres other);
$node->safe_psql('postgres', 'GRANT ALL ON account TO worker; GRANT EXECUTE ON FUNCTION fencing.acquire, fencing.bind TO worker');

# ---- what is recorded

my $admin = FencingSession->new($node);
my $columns = 'relation, resource, presented_token, current_token, sqlstate, mode';
my $newest = "SELECT $columns FROM fencing.refusals LIMIT 1";

is($admin->get('SELECT count(*) FROM fencing.refusals'), '0', 'nothing was refused yet');

# refused($name, $statements, $state, $row): refused with $state, and the newest record is $row.
sub refused
{
	my ($name, $statements, $state, $row) = @_;
	my $before = $admin->get('SELECT count(*) FROM fencing.refusals');
	$admin->ask($statements);
	is($admin->sqlstate, $state, $name);
	$admin->ask('ROLLBACK');
	is($admin->get($newest), $row, '... as recorded');
	is($admin->get('SELECT count(*) FROM fencing.refusals'), $before + 1, '... once');
	return;
}

refused('a stale token for a row', 'UPDATE account SET fence_token = 9 WHERE id = 1', 'TK001', 'public.account||9|10|TK001|enforce');
refused('no token for a row', 'UPDATE account SET balance = 0 WHERE id = 1', 'TK002', 'public.account|||10|TK002|enforce');
refused('no token for a resource', q(INSERT INTO "Odd one".task VALUES (1)), 'TK002', '"Odd one".task|task-1|||TK002|enforce');
refused('an unknown resource', q(BEGIN; SET LOCAL fencing.token = 7; INSERT INTO "Odd one".task VALUES (2)),
	'TK003', '"Odd one".task|task-2|7||TK003|enforce');
my $first = $admin->get(q(SELECT token FROM fencing.acquire('task-3', '1 hour')));
my $second = $admin->get(q(SELECT token FROM fencing.acquire('task-3', '1 hour', steal => 'always')));
refused('a stale token for a resource', qq(BEGIN; SET LOCAL fencing.token = $first; INSERT INTO "Odd one".task VALUES (3)),
	'TK001', qq("Odd one".task|task-3|$first|$second|TK001|enforce));
refused('bind', "SELECT fencing.bind('task-3', $first)", 'TK001', "|task-3|$first|$second|TK001|enforce");
$admin->get("BEGIN; SELECT fencing.bind('task-3', $second)");
my $third = FencingSession->new($node)->get(q(SELECT token FROM fencing.acquire('task-3', '1 hour', steal => 'always')));
refused('at COMMIT', 'COMMIT', 'TK001', "|task-3|$second|$third|TK001|enforce");
refused('inside of a block that goes on', <<'SQL', '00000', 'public.account||1|10|TK001|enforce');
DO $$ BEGIN UPDATE account SET fence_token = 1 WHERE id = 2; EXCEPTION WHEN sqlstate 'TK001' THEN NULL; END $$
SQL
refused('what is only observed', 'SET fencing.enforcement = observe; UPDATE account SET fence_token = 3 WHERE id = 2; RESET fencing.enforcement',
	'00000', 'public.account||3|10|TK001|observe');
my $before = $admin->get('SELECT count(*) FROM fencing.refusals');
$admin->state_of('SELECT 1 / 0');
$admin->state_of(q(SELECT fencing.bind('', 1)));
$admin->state_of('UPDATE account SET fence_token = -1 WHERE id = 1');
is($admin->get('SELECT count(*) FROM fencing.refusals'), $before, 'other errors are no refusals');

# ---- who, from where, when

my $worker = FencingSession->new($node, user => 'worker');
$worker->get(q(SET application_name = 'job-runner'));
is($worker->state_of('UPDATE account SET fence_token = 2 WHERE id = 1'), 'TK001', 'a worker is refused');
is($admin->get(<<'SQL'), join('|', 'postgres', 'worker', 'job-runner', '', $worker->pid, 't'), '... and can be told from others');
SELECT database, role, application_name, client_addr, pid, refused_at BETWEEN now() - interval '1 minute' AND clock_timestamp()
    FROM fencing.refusals LIMIT 1
SQL
my $tcp = $node->connstr('postgres');
$tcp =~ s/host=\S+/host=127.0.0.1/;
IPC::Run::run([ 'psql', '-XAtq', '-d', $tcp, '-c', 'UPDATE account SET fence_token = 2 WHERE id = 1' ], '2>', \my $errors);
like($errors, qr/stale fencing token/, 'refused over TCP');
is($admin->get('SELECT client_addr FROM fencing.refusals LIMIT 1'), '127.0.0.1', '... with its address');
$admin->get('SET ROLE worker');
$admin->state_of('UPDATE account SET fence_token = 4 WHERE id = 1');
$admin->get('RESET ROLE');
is($admin->get('SELECT role FROM fencing.refusals LIMIT 1'), 'worker', 'the role that SET ROLE says');
$admin->get('CREATE ROLE gone; GRANT ALL ON account TO gone; SET ROLE gone');
$admin->state_of('UPDATE account SET fence_token = 4 WHERE id = 1');
$admin->get('RESET ROLE; DROP OWNED BY gone; DROP ROLE gone');
is($admin->get('SELECT role IS NULL FROM fencing.refusals LIMIT 1'), 't', 'a role that was dropped since');
my $long = 'x' x 512;
$admin->state_of(qq(SELECT fencing.bind('$long', 5)));
is($admin->get('SELECT length(resource) FROM fencing.refusals LIMIT 1'), '512', 'the longest name fits');

# ---- privileges

my $other = FencingSession->new($node, dbname => 'other');
is($other->state_of('UPDATE account SET fence_token = 5 WHERE id = 1'), 'TK001', 'refused in another database');
my $watcher = FencingSession->new($node, user => 'watcher');
is($watcher->get('SELECT database FROM fencing.refusals LIMIT 1'), 'other', 'pg_monitor sees all databases');
ok($watcher->get('SELECT count(*) FROM fencing.stats') > 0, '... and the counters');
my $owner = FencingSession->new($node, user => 'owner', dbname => 'other');
is($owner->get('SELECT count(*), min(database) FROM fencing.refusals'), '1|other', 'the owner of a database sees that one');
is($owner->get('SELECT sum(refusals) FROM fencing.stats'), '1', '... and its counters');
is($worker->state_of("SELECT * FROM fencing.$_"), '42501', "nobody else sees fencing.$_") foreach qw(refusals stats);
is($worker->state_of("SELECT fencing.get_$_()"), '42501', "... nor what it is made of") foreach qw(refusals stats);

$node->safe_psql('postgres', q(CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0));
$node->safe_psql('latin', $setup);
is(FencingSession->new($node, dbname => 'latin')->state_of(q(SET client_encoding = 'LATIN1'; SELECT fencing.bind(E'caf\351', 9))), 'TK003',
	'refused in a database of another encoding');
is($watcher->get('SELECT upper(resource) FROM fencing.refusals LIMIT 1'), 'CAF?', '... is text here, too');

# ---- counters

my $session = FencingSession->new($node, dbname => 'other');
my $counters = <<'SQL';
SELECT relation, grants, renewals_lost, refusals, observed, seals, escalations FROM fencing.stats ORDER BY relation::text
SQL
is($session->get($counters), "account|0|0|1|0|0|0\n|0|0|0|0|0|0", 'before');
my $token = $session->get(q(SELECT token FROM fencing.acquire('task-1', '1 hour')));
is($session->get(q(SELECT count(*) FROM fencing.acquire('task-1'))), '0', 'not granted');
is($session->get("SELECT fencing.renew('task-1', $token) IS NULL, fencing.renew('task-1', 1000) IS NULL"), 'f|t', 'renewed and not');
$session->get(qq(INSERT INTO "Odd one".task SELECT 1 FROM fencing.bind('task-1', $token)));
$session->get(q(SELECT fencing.acquire('task-' || n, '1 hour') FROM generate_series(2, 100) n));
$session->get(q(BEGIN; SELECT fencing.bind(resource, token) FROM fencing.fence; COMMIT));
$session->state_of(q(UPDATE "Odd one".task SET note = 'x'));
$session->get(q(SET fencing.enforcement = observe; UPDATE "Odd one".task SET note = 'x'; RESET fencing.enforcement));
is($session->get($counters), qq("Odd one".task|0|0|1|1|0|0\naccount|0|0|1|0|0|0\n|100|1|0|0|1|1), 'after');

# ---- a storm: bounded, and the newest are there

$node->safe_psql('postgres', q(SELECT fencing.advance('storm', 1000000000)));
my @storm = map { FencingSession->new($node) } 1 .. 8;
foreach my $session (@storm)
{
	$session->get(q(SET application_name = 'storm'));
	$session->send(<<'SQL');
DO $$ BEGIN FOR n IN 1..20000 LOOP
    BEGIN PERFORM fencing.bind('storm', n); EXCEPTION WHEN sqlstate 'TK001' THEN NULL; END;
END LOOP; END $$;
SQL
}
my ($reads, $wrong) = (0, 0);
while (grep { !$_->answered(0.01) } @storm)
{
	# What a session presents only grows, so the newest of each comes first; and each record is whole.
	$wrong += $admin->get(<<'SQL');
SELECT count(*) FROM (SELECT presented_token, lag(presented_token) OVER (PARTITION BY pid ORDER BY n) AS newer, resource
    FROM (SELECT *, row_number() OVER () AS n FROM fencing.refusals WHERE application_name = 'storm') AS r) AS s
    WHERE newer <= presented_token OR resource <> 'storm'
SQL
	$reads++;
}
is($_->sqlstate, '00000', 'a session of the storm has ended') foreach @storm;
is($wrong, 0, 'no record was torn or out of order');
ok($reads > 1, 'the view was read during the storm');
is($admin->get('SELECT count(*) FROM fencing.refusals'), '1024', 'the ring is full and bounded');
is($admin->get(q(SELECT presented_token FROM fencing.refusals LIMIT 1)), '20000', 'the newest is the last one of a session');
is($admin->get(q(SELECT sum(refusals) >= 160000 FROM fencing.stats)), 't', 'all were counted');

# ---- waiting

my $held = $admin->get(q(SELECT token FROM fencing.acquire('baton', '1 hour')));
my @waiting = map { FencingSession->new($node) } 1 .. 3;
foreach my $waiter (@waiting)
{
	my $pid = $waiter->pid;
	$waiter->send(q(SELECT token FROM fencing.acquire('baton', '1 hour', wait => '1 minute')));
	ok(until_true(sub { $admin->get("SELECT state = 'active' AND wait_event_type IN ('Lock', 'Extension') FROM pg_stat_activity WHERE pid = $pid") eq 't' }), 'waits');
}
my ($head, @others) = @waiting;
$head->cancel($admin);
is($head->sqlstate, '57014', 'a waiting call can be cancelled');
foreach my $waiter (@others)
{
	is($admin->get("SELECT fencing.release('baton', $held)"), 't', 'released');
	my $granted = $waiter->wait;
	ok($granted > $held, '... and granted to who waits');
	$held = $granted;
}
is($head->get(q(SELECT count(*) FROM fencing.acquire('baton', wait => '20 ms'))), '0', 'a wait ends');
$admin->get('BEGIN');
is($admin->get("SELECT fencing.release('baton', $held)"), 't', 'released in a transaction that goes on');
$head->send(q(SELECT token FROM fencing.acquire('baton', '1 hour', wait => '1 minute')));
ok(!$head->answered(0.2), '... nobody is granted');
$admin->get('ROLLBACK');
ok(!$head->answered(0.2), '... nor when it is rolled back');
is($admin->get("SELECT fencing.release('baton', $held)"), 't', 'released');
ok($head->wait > $held, '... and granted');

# ---- without being preloaded

$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$node->restart;
my $plain = FencingSession->new($node);
is($plain->state_of('UPDATE account SET fence_token = 9 WHERE id = 1'), 'TK001', 'refused');
if ($node->pg_version >= 17)
{
	is($plain->get($newest), 'public.account||9|10|TK001|enforce', '17 and later need no preloading');
	is($plain->get($counters), "account|0|0|1|0|0|0\n|0|0|0|0|0|0", '... nor do the counters');
}
else
{
	is($plain->state_of("SELECT * FROM fencing.$_"), '55000', "fencing.$_ needs to be preloaded") foreach qw(refusals stats);
	like($plain->errors, qr/fencing.stats needs fencing in shared_preload_libraries/, '... and says so');
}
$held = $plain->get(q(SELECT token FROM fencing.acquire('baton', '1 hour', steal => 'always')));
my $waiter = FencingSession->new($node);
$waiter->send(q(SELECT token FROM fencing.acquire('baton', '1 hour', wait => '1 minute')));
ok(!$waiter->answered(0.1), 'somebody waits');
is($plain->get("SELECT fencing.release('baton', $held)"), 't', 'released');
ok($waiter->wait > $held, '... and granted');

done_testing();
