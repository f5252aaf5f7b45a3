# 023_seal_many: sixteen transactions over the same 5,000 resources in opposite orders, with and without a raise, beside
# some over a few of them, end without a deadlock, while grants of other resources go on. A commit over more resources
# than it can lock one by one holds up grants in its buckets only, and cannot be prepared. Resources whose names share
# a lock tag, or a hash of the look-up table, are told apart in everything but that lock.
#
# Caught here: locks in the order of writing; a shared lock that is upgraded where two want to raise; exact and bucket
# modes that do not exclude each other, or exclude too much; a comparison by hash; entries that share a tag and are
# locked in the weaker mode.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $slack = 2;

my $node = fencing_node('main');
$node->append_conf('postgresql.conf', <<'CONF');
wal_level = replica
max_wal_senders = 2
max_prepared_transactions = 10
max_connections = 40
log_statement = none
autovacuum = off
CONF
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fencing;
CREATE TABLE issued (client int, n int);
CREATE TABLE elsewhere (client int, n int);
CREATE TABLE named (resource text, body text);
CREATE TABLE named_elsewhere (resource text, body text);
SELECT fencing.protect('issued', resource => 'issued-{n}');
SELECT fencing.protect('elsewhere', resource => 'elsewhere-{n}', issuer => 'external');
SELECT fencing.protect('named', resource => '{resource}');
SELECT fencing.protect('named_elsewhere', resource => '{resource}', issuer => 'external');
CREATE FUNCTION granted(resource text) RETURNS bigint LANGUAGE sql AS $$
	SELECT token FROM fencing.acquire(resource, '1 hour', steal => 'always')
$$;
SQL
my $session = FencingSession->new($node);
my $other = FencingSession->new($node);
my $watcher = FencingSession->new($node);

sub resource_locks
{
	return $watcher->get(q(SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND classid = 'fencing.fence'::regclass));
}

# The resources that are issued here, without as many grants.
$session->get(q(INSERT INTO fencing.fence (resource, token, external) SELECT 'issued-' || n, 1, false FROM generate_series(1, 20000) n));

# One stale resource among very many.
$session->get('BEGIN; SET LOCAL fencing.token = 1; INSERT INTO issued SELECT 31, n FROM generate_series(1, 5000) n');
$other->get(q(SELECT granted('issued-3333')));
is($session->state_of('COMMIT'), 'TK001', 'one stale resource of 5,000: the COMMIT is refused');
like($session->errors, qr/resource "issued-3333"/, '... because of that one');
$other->get(q(UPDATE fencing.fence SET token = 1 WHERE resource = 'issued-3333'));
is($session->get('SELECT count(*) FROM issued WHERE client = 31'), '0', '... and nothing is written');
is(resource_locks(), '0', '... nor locked');

# ---- sixteen at a time

# Each transaction claims its resources in its own order; all commit at once. Beside them two clients are granted
# other resources without a pause, each with a wait of 500 ms.
my @writers = map { FencingSession->new($node) } 1 .. 16;
$_->get(q(SET fencing.seal_timeout = '10 min')) foreach @writers;
my $script = PostgreSQL::Test::Utils::tempdir() . '/grants.sql';
append_to_file($script, <<'SQL');
\set number random(1, 1000000)
INSERT INTO answer SELECT count(*), clock_timestamp() - statement_timestamp()
	FROM fencing.acquire('other-' || :number, '1 hour', wait => '500 ms', steal => 'always');
SQL
$session->get('CREATE TABLE answer (granted int, after interval)');

sub all_commit
{
	my ($name, $statement, $expected) = @_;
	my $granted = q(SELECT sum(granted) FROM answer);
	my $grants_go_on = sub {
		my $before = $watcher->get($granted) || 0;
		return until_true(sub { ($watcher->get($granted) || 0) > $before + 10 }, 60, 0.05);
	};
	$watcher->get('TRUNCATE answer');
	my ($out, $err) = ('', '');
	my $grants = IPC::Run::start(['pgbench', '-n', '-c', 2, '-j', 1, '-R', 300, '-T', 600, '-f', $script, $node->connstr('postgres')],
		'>', \$out, '2>', \$err, IPC::Run::timeout(600));
	ok($grants_go_on->(), "$name: grants of other resources go on");

	foreach my $client (1 .. 16)
	{
		my ($token, $sql) = $statement->($client);
		$writers[$client - 1]->send("BEGIN; SET LOCAL fencing.token = $token; $sql");
	}
	foreach my $writer (@writers)
	{
		$writer->wait(120);
		die $writer->errors if $writer->sqlstate ne '00000';
	}
	$_->send('COMMIT') foreach @writers;
	$_->wait(300) foreach @writers;
	my %ends;
	push @{ $ends{ $writers[$_ - 1]->sqlstate } }, $_ foreach 1 .. 16;
	my $ends = join ' ', map { "$_: " . @{ $ends{$_} } } sort keys %ends;
	like($ends, $expected, "$name: sixteen commits at once: $ends");
	ok($grants_go_on->(), '... after which grants go on');
	is($err, '', '... without an error');
	$grants->kill_kill;
	my ($calls, $slowest) = split /\|/, $watcher->get('SELECT count(*), extract(epoch FROM max(after)) FROM answer');
	cmp_ok($slowest, '<', 0.5 + 1 + $slack, "... each answered within its wait and a second: the slowest of $calls after $slowest s");
	is($watcher->get(q(SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'object' AND a.state = 'idle')), '0', '... no lock is left');
	return \%ends;
}

sub in_order
{
	my ($client) = @_;
	return 'ORDER BY n' . ($client % 2 ? '' : ' DESC');
}

sub range
{
	my ($client) = @_;
	# Every fourth is over some dozens only, and locks one by one.
	return $client % 4 == 0 ? 'generate_series(101, 140)' : 'generate_series(1, 5000)';
}

my $all_good = qr/^00000: 16$/;
all_commit('issued here', sub { (1, "INSERT INTO issued SELECT $_[0], n FROM generate_series(1, 5000) n " . in_order(@_)) }, $all_good);
all_commit('issued here, some over a few', sub { (1, "INSERT INTO issued SELECT $_[0], n FROM @{[range(@_)]} n " . in_order(@_)) }, $all_good);
# All want to raise to the same token: the first one does.
all_commit('raise to the same', sub { (50, "INSERT INTO elsewhere SELECT $_[0], n FROM @{[range(@_)]} n " . in_order(@_)) }, $all_good);
is($watcher->get(q(SELECT DISTINCT token FROM fencing.fence WHERE resource IN (SELECT 'elsewhere-' || n FROM generate_series(1, 5000) n))), '50', '... and all fences are raised');
# Each to its own: a lower one that comes after a higher one is stale.
my $ends = all_commit('raise each to its own', sub { (100 + $_[0], "INSERT INTO elsewhere SELECT 100 + $_[0], n FROM generate_series(1, 5000) n " . in_order(@_)) },
	qr/^00000: (\d+)( TK001: \d+)?$/);
is($watcher->get(q(SELECT DISTINCT token FROM fencing.fence WHERE resource IN (SELECT 'elsewhere-' || n FROM generate_series(1, 5000) n))), '116', '... the highest one is the fence of all');
is($watcher->get(q(SELECT string_agg(client - 100 || ':' || count, ' ' ORDER BY client) FROM (SELECT client, count(*) FROM elsewhere WHERE client > 100 GROUP BY client) c)),
	join(' ', map { "$_:5000" } @{ $ends->{'00000'} }), '... and exactly what was committed is there, whole');
# A few and many, issued here and elsewhere, in one transaction.
all_commit('both issuers', sub {
	my ($client) = @_;
	(200, "INSERT INTO elsewhere SELECT $client, n FROM generate_series(1, 60) n " . in_order($client) . "; SET LOCAL fencing.token = 1; INSERT INTO issued SELECT $client, n FROM @{[range($client)]} n " . in_order($client));
}, $all_good);
$_->close foreach @writers;

# ---- only their own buckets

# The bucket is a part of the hash of the name. Sixty resources of one bucket, so that they are not locked one by one.
my @bucket = split /\n/, $session->get(q(SELECT n FROM generate_series(1, 20000) n WHERE hashtextextended('issued-' || n, 0) & 127 = 5 LIMIT 60));
my $list = join ',', @bucket;
my $neighbour = $session->get(q(SELECT 'neighbour-' || n FROM generate_series(1, 100000) n WHERE hashtextextended('neighbour-' || n, 0) & 127 = 5 LIMIT 1));
my $far = $session->get(q(SELECT 'far-' || n FROM generate_series(1, 100000) n WHERE hashtextextended('far-' || n, 0) & 127 = 6 LIMIT 1));

$session->get("BEGIN; SET LOCAL fencing.token = 1; INSERT INTO issued SELECT 32, n FROM unnest(ARRAY[$list]) n");
is($session->state_of(q(PREPARE TRANSACTION 'many')), '0A000', 'a transaction over 60 resources cannot be prepared');
is($session->get('SELECT count(*) FROM issued WHERE client = 32'), '0', '... it is over');
is(resource_locks() . $session->get('SELECT count(*) FROM pg_prepared_xacts'), '00', '... and leaves nothing');
$session->get('BEGIN; SET LOCAL fencing.token = 1; INSERT INTO issued SELECT 32, n FROM generate_series(1, 20) n');
is($session->state_of(q(PREPARE TRANSACTION 'few')), '00000', 'one over 20 can');
is($session->state_of(q(COMMIT PREPARED 'few')), '00000', '... and be committed');

$_->get(q(SET synchronous_commit = local)) foreach $other, $watcher;
ok(lose_standby($node, $session), 'a synchronous standby is away');
$session->get("BEGIN; SET LOCAL fencing.token = 1; INSERT INTO issued SELECT 33, n FROM unnest(ARRAY[$list]) n");
$session->send('COMMIT');
ok(until_true(sub { $watcher->get('SELECT wait_event FROM pg_stat_activity WHERE pid = ' . $session->pid) eq 'SyncRep' }, 30), 'a commit of 60 resources of one bucket is stuck');
is($watcher->get('SELECT count(*) FROM pg_locks WHERE locktype = \'object\' AND pid = ' . $session->pid), '1', '... with one lock');
like($other->ask("SELECT granted('$far')"), qr/^\d+$/, '... a resource of another bucket is granted at once');
foreach my $wait (0, 1)
{
	is($other->get("SELECT count(*) FROM fencing.acquire('$neighbour', wait => '$wait s')", 30), '0', "... one of the same bucket is not, with wait $wait s");
	cmp_ok($other->elapsed, '<', $wait + 1 + $slack, '... which is said in time');
}
is($other->state_of(q(SELECT fencing.bind('issued-1', 1)), 30), '00000', '... nor are other commits held up');
$watcher->get('SELECT pg_cancel_backend(' . $session->pid . ')');
is($session->wait(30) . $session->sqlstate, '00000', 'cancelled, it is committed here');
like($other->ask("SELECT granted('$neighbour')"), qr/^\d+$/, '... and the neighbour granted at once');
$node->append_conf('postgresql.conf', "synchronous_standby_names = ''\n");
$node->reload;

# ---- names that share a hash

# A lock tag holds 46 bits of the hash. Found among 24 million names, in six minutes, by
#   SELECT array_agg('job-' || i) FROM generate_series(1, 24000000) i, hashtextextended('job-' || i, 0) h
#   GROUP BY h & 4294967295, (h >> 32) & 32766 HAVING count(*) > 1
my @same_tag = ('job-2785320', 'job-5049186');
# The look-up table of a transaction has 32 bits of another one.
my @same_hash = split /\|/, $session->get(q(
	SELECT min('name-' || n), max('name-' || n) FROM generate_series(1, 300000) n GROUP BY hashtext('name-' || n) HAVING count(*) > 1 LIMIT 1));

$session->get('BEGIN');
$session->get(qq(SELECT granted('$same_tag[0]')));
is($other->get(qq(SELECT count(*) FROM fencing.acquire('$same_tag[1]'))), '0', 'two names share a lock tag: an open grant of one is in the way of the other');
$session->get('ROLLBACK');

foreach my $case (['a lock tag', @same_tag], ['a hash', @same_hash])
{
	my ($what, $one, $two) = @$case;
	my $name = "$one and $two share $what";
	my $of_one = $session->get("SELECT token FROM fencing.acquire('$one', '1 hour', 'first')");
	my $of_two = $session->get("SELECT token FROM fencing.acquire('$two', '2 hours', 'second')");
	isnt($of_two, '', "$name: the second is granted while the first is leased");
	is($session->get("SELECT token, holder, ttl FROM fencing.lookup('$one')"), "$of_one|first|01:00:00", '... each has its own fence and lease');
	is($session->get("SELECT token, holder, ttl FROM fencing.lookup('$two')"), "$of_two|second|02:00:00", '... both');
	is($session->state_of("SELECT fencing.bind('$one', $of_two)"), 'TK003', '... the token of one was never issued for the other');
	is($session->state_of("SELECT fencing.bind('$two', $of_one)"), 'TK001', '... or is stale');

	my $write = "INSERT INTO named VALUES ('$one', 'x'), ('$two', 'x')";
	$session->get("BEGIN; SELECT fencing.bind('$one', $of_one), fencing.bind('$two', $of_two); $write");
	is($session->get('SELECT string_agg(resource || \'=\' || token, \' \' ORDER BY token) FROM fencing.bound()'), "$one=$of_one $two=$of_two", '... a transaction is bound to both');
	is($session->state_of('COMMIT'), '00000', '... and commits');
	foreach my $lost ($one, $two)
	{
		my $kept = $lost eq $one ? $two : $one;
		$session->get("BEGIN; SELECT fencing.bind('$one', $of_one), fencing.bind('$two', $of_two); $write");
		my $next = $other->get("SELECT granted('$lost')");
		is($session->state_of('COMMIT'), 'TK001', "... when $lost is taken over, it is refused");
		like($session->errors, qr/resource "$lost"/, '... because of that one');
		my $of_kept = $kept eq $one ? $of_one : $of_two;
		$session->get("BEGIN; SELECT fencing.bind('$kept', $of_kept); INSERT INTO named VALUES ('$kept', 'x')");
		is($session->state_of('COMMIT'), '00000', "... while $kept is still good");
		$lost eq $one ? $of_one = $next : $of_two = $next;
	}
	is($session->get("SELECT fencing.release('$one', $of_one), count(*) FROM fencing.acquire('$two')"), 't|0', '... a release of one ends no lease of the other');
	is($session->get("SELECT fencing.forget('$one')"), 't', '... one is forgotten');
	is($session->get("SELECT fencing.bind('$two', $of_two)"), $of_two, '... and the other stands');
	is($session->get("SELECT fencing.forget('$two')"), 't', '... until it is, too');

	# One that needs a raise and one that does not: the stronger lock is taken, once, whichever was written first.
	my $fence = 0;
	foreach my $raised ($one, $two)
	{
		my $kept = $raised eq $one ? $two : $one;
		foreach my $first ($raised, $kept)
		{
			$fence += 10;
			my $greater = $fence + 1;
			$session->get("SELECT fencing.advance('$_', $fence)") foreach $one, $two;
			$session->get('BEGIN');
			foreach my $written ($first, $first eq $one ? $two : $one)
			{
				my $token = $written eq $raised ? $greater : $fence;
				$session->get("SET LOCAL fencing.token = $token; INSERT INTO named_elsewhere VALUES ('$written', 'x')");
			}
			is($session->state_of(q(PREPARE TRANSACTION 'both')), '00000', "... $raised raised beside $kept, $first first");
			is($watcher->get(q(SELECT string_agg(mode, ' ' ORDER BY mode) FROM pg_locks WHERE locktype = 'object' AND objsubid % 2 = 1 AND classid = 'fencing.fence'::regclass)),
				$what eq 'a lock tag' ? 'ExclusiveLock' : 'ExclusiveLock ShareLock', '... with the locks that it takes');
			is($session->state_of(q(COMMIT PREPARED 'both')), '00000', '... is committed');
			is($session->get("SELECT (SELECT token FROM fencing.lookup('$raised')), (SELECT token FROM fencing.lookup('$kept'))"), "$greater|$fence", '... and the one fence is raised');
			is($session->state_of("BEGIN; SET LOCAL fencing.token = $fence; INSERT INTO named_elsewhere VALUES ('$raised', 'x')"), 'TK001', '... a lower token is stale for it');
			$session->get('ROLLBACK');
		}
	}
}
is(resource_locks(), '0', 'no lock is left in the end');

done_testing();
