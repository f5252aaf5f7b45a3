# 028_seal_memory: claims and seals take no memory along. 20,000 transactions whose COMMIT is refused, 20,000 that
# commit, and 20,000 savepoints within one transaction grow the backend by less than 2 MB, counted twice: the server's
# own memory contexts, and the private memory of the process.
#
# Within one transaction a resource is remembered to its end, also where its savepoint was rolled back: 20,000 of them
# may take 512 bytes each, which the end of the transaction gives back.
# Caught here: a claim, a level or a lock's entry in the memory of the session; a level that the end of its
# subtransaction does not free; a callback that is registered again and again; a raise that leaves its scratch memory.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $limit = 2 * 1024 * 1024;
my $times = 20000;

my $node = fencing_node('main');
$node->append_conf('postgresql.conf', <<'CONF');
log_statement = none
log_min_messages = fatal
autovacuum = off
synchronous_commit = off
fencing.durable_grants = off
CONF
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fencing;
CREATE TABLE task (job text, fence_token bigint);
CREATE TABLE task_elsewhere (job text, fence_token bigint);
CREATE TABLE watched (job text, fence_token bigint);
SELECT fencing.protect('task', 'fence_token', resource => '{job}');
SELECT fencing.protect('task_elsewhere', 'fence_token', resource => '{job}', issuer => 'external');
SELECT fencing.protect('watched', 'fence_token', resource => '{job}', mode => 'observe');
SELECT fencing.acquire('job', '1 hour');
SELECT fencing.advance('elsewhere', 10);
CREATE FUNCTION current() RETURNS bigint LANGUAGE sql AS $$ SELECT token FROM fencing.lookup('job') $$;

-- The server's own count of the memory of this backend, and the kernel's.
CREATE FUNCTION memory(OUT contexts bigint, OUT process bigint) LANGUAGE sql AS $$
	SELECT (SELECT sum(total_bytes) FROM pg_backend_memory_contexts)::bigint,
		1024 * substring(pg_read_file('/proc/self/status') FROM 'RssAnon:\s+(\d+) kB')::bigint
$$;

-- Runs the statement so many times, each in a savepoint that is released or, by an error or at its end, rolled back.
CREATE FUNCTION savepoints(statement text, released bool, times int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	before bigint := (SELECT contexts FROM memory());
BEGIN
	FOR i IN 1 .. times LOOP
		BEGIN
			EXECUTE statement USING i;
			IF NOT released THEN
				RAISE SQLSTATE '99000';
			END IF;
		EXCEPTION WHEN SQLSTATE '99000' OR SQLSTATE 'TK001' OR SQLSTATE 'TK003' THEN
			NULL;
		END;
	END LOOP;
	RETURN (SELECT contexts FROM memory()) - before;
END $$;
SQL

# Transactions: psql plays them from a file, the backend counts for itself after the first of them and after the last.
# A transaction that steals from itself is stale when it commits; the grant is undone with it.
my $steal = q(SELECT fencing.acquire('job', '1 hour', steal => 'always'));
my $claims = q(SELECT fencing.bind('job', current())\; SAVEPOINT s\; INSERT INTO task VALUES ('job', current())\; RELEASE s\; )
  . q(INSERT INTO task_elsewhere VALUES ('elsewhere', (SELECT token + 1 FROM fencing.lookup('elsewhere'))));
my @transactions = (
	['refused at COMMIT', $claims, $steal, 'TK001'],
	['only warned of at COMMIT', q(INSERT INTO watched VALUES ('job', current())), $steal, 'TK001'],
	['committed, with a raise', $claims, 'SELECT 1', '']);
my $script = PostgreSQL::Test::Utils::tempdir() . '/transactions.sql';
foreach my $case (@transactions)
{
	my ($name, $claim, $then, $state) = @$case;
	my $transaction = "BEGIN\\; $claim\\; $then\\; COMMIT;\n";
	my $memory = "\\echo memory\nSELECT contexts, process FROM memory();\n";
	open my $file, '>', $script or die "could not write $script: $!";
	print $file "\\set VERBOSITY sqlstate\n", $transaction x 500, $memory, $transaction x $times, $memory;
	close $file;
	my ($out, $err) = ('', '');
	IPC::Run::run(['psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', $script], '>', \$out, '2>', \$err, IPC::Run::timeout(300));
	my @counts = $out =~ /^memory\n(\d+)\|(\d+)$/mg;
	is(scalar(@counts), 4, "$name: $times transactions in one session");
	my %states;
	$states{$1}++ while $err =~ /(?:ERROR|WARNING):  (\w+)/g;
	is(join(' ', map { "$_: $states{$_}" } keys %states), $state ? "$state: " . ($times + 500) : '', '... each ends as it should');
	cmp_ok($counts[2] - $counts[0], '<', $limit, '... memory contexts grow by ' . ($counts[2] - $counts[0]));
	cmp_ok($counts[3] - $counts[1], '<', $limit, '... and the process by ' . ($counts[3] - $counts[1]));
}

# Savepoints of one transaction.
my $session = FencingSession->new($node);
$session->get('CREATE TEMP TABLE here (n int)');
my @statements = (
	['bind', q(SELECT fencing.bind('job', current()))],
	['a guarded write', q(INSERT INTO task VALUES ('job', current()))],
	['bind, stale', q(SELECT fencing.bind('job', 1))],
	['bind, unissued', q(SELECT fencing.bind('job', 1000000000))],
	['a guarded write, unissued', q(INSERT INTO task VALUES ('job', 1000000000))],
	['a token from elsewhere, higher each time', q(INSERT INTO task_elsewhere VALUES ('elsewhere', 10000000 + $1))]);
foreach my $released (0, 1)
{
	foreach my $case (@statements)
	{
		my ($name, $statement) = @$case;
		$name .= $released ? ', released' : ', rolled back';
		$session->get("BEGIN; SELECT fencing.bind('job', current())");
		my $call = "SELECT savepoints(\$s\$$statement\$s\$, '$released', %s)";
		$session->get(sprintf $call, 500);
		my $before = $session->get('SELECT process FROM memory()');
		my $grown = $session->get(sprintf($call, $times), 120);
		my $process = $session->get('SELECT process FROM memory()') - $before;
		cmp_ok($grown, '<', $limit, "$name: $times savepoints of one transaction grow the memory contexts by $grown");
		cmp_ok($process, '<', $limit, "... and the process by $process");
		is($session->state_of('ROLLBACK'), '00000', '... and it is over');
	}
}

# So many resources: remembered to the end of the transaction, and no longer.
my $before = $session->get('SELECT contexts FROM memory()');
foreach my $end ('ROLLBACK', 'COMMIT')
{
	foreach my $released (0, 1)
	{
		my $name = "$times resources, savepoints " . ($released ? 'released' : 'rolled back') . ", then $end";
		$session->get('BEGIN');
		my $grown = $session->get("SELECT savepoints('INSERT INTO task_elsewhere SELECT ''elsewhere-'' || \$1, 10', '$released', $times)", 120);
		cmp_ok($grown, '<', 512 * $times, "$name: " . int($grown / $times) . ' bytes for each');
		is($session->state_of($end, 120), '00000', '... ends');
		my $left = $session->get('SELECT contexts FROM memory()') - $before;
		cmp_ok($left, '<', $limit, "... which leaves $left");
	}
}
is($session->get('SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = \'object\''), '0', 'no lock is left');

done_testing();
