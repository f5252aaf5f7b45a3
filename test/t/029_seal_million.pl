# 029_seal_million: one transaction over a million resources commits under the default max_locks_per_transaction, in
# linear time and bounded memory: ten times as many cost less than 20 times the processor time, and at most 512 bytes
# of memory each. The same with a raise of each fence, for 200,000.
#
# Processor time and not the clock, so that a busy machine does not matter.
# Caught here: a lock for each resource; a list that is searched from its beginning; scratch memory of a raise that
# lives to the end of the transaction.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fencing_node('main');
$node->append_conf('postgresql.conf', <<'CONF');
shared_buffers = 256MB
max_wal_size = 8GB
log_statement = none
autovacuum = off
CONF
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fencing;
CREATE TABLE issued (n int);
CREATE TABLE elsewhere (n int);
SELECT fencing.protect('issued', resource => 'issued-{n}');
SELECT fencing.protect('elsewhere', resource => 'elsewhere-{n}', issuer => 'external');
SQL
my $session = FencingSession->new($node);

# Ticks of processor time, which a busy machine does not stretch as it does the clock.
sub cpu_ticks
{
	open my $stat, '<', '/proc/' . $_[0]->pid . '/stat' or die "no such process\n";
	my @fields = split ' ', (<$stat> =~ s/.*\) //r);
	close $stat;
	return $fields[11] + $fields[12];
}

# The private memory of a backend, in bytes.
sub private_memory
{
	slurp_file('/proc/' . $_[0]->pid . '/status') =~ /^RssAnon:\s+(\d+) kB/m or die "no RssAnon\n";
	return $1 * 1024;
}

# Processor time and greatest memory of a transaction that writes so many rows, each of another resource.
sub cost
{
	my ($table, $count, $token) = @_;
	my $writer = FencingSession->new($node);
	$writer->get("BEGIN; SET LOCAL fencing.token = $token; INSERT INTO $table VALUES (1)");
	my ($ticks, $memory, $most) = (cpu_ticks($writer), private_memory($writer), 0);
	foreach my $statement ("INSERT INTO $table SELECT n FROM generate_series(1, $count) n", 'COMMIT')
	{
		$writer->send($statement);
		while (!$writer->answered(0.02))
		{
			my $now = private_memory($writer);
			$most = $now if $now > $most;
		}
		is($writer->sqlstate, '00000', "$table: " . ($statement eq 'COMMIT' ? "a COMMIT of $count resources" : 'the writes')) or diag($writer->errors);
	}
	my $used = cpu_ticks($writer) - $ticks;
	is($writer->get('SELECT 1'), '1', '... and the session goes on');
	$writer->close;
	return ($used, $most - $memory);
}

# 64, and 128 since 19.
is($session->get(q(SELECT setting = boot_val FROM pg_settings WHERE name = 'max_locks_per_transaction')), 't',
	'max_locks_per_transaction is the default');
# A million grants would take longer than what is tested here.
$session->get(q(INSERT INTO fencing.fence (resource, token, external) SELECT 'issued-' || n, 1, false FROM generate_series(1, 1000000) n), 600);
foreach my $case (['issued', 1000000, 1, 1], ['elsewhere', 200000, 5, 6])
{
	my ($table, $count, @tokens) = @$case;
	my ($few) = cost($table, $count / 10, $tokens[0]);
	# With another token from elsewhere, so that all fences are raised, the old and the new ones.
	my ($many, $memory) = cost($table, $count, $tokens[1]);
	cmp_ok($many, '<', 20 * $few, "$table: ten times as many cost less than 20 times as much: $few and $many ticks");
	cmp_ok($memory, '<', 512 * $count, '... and at most 512 bytes of memory for each: ' . int($memory / $count));
	is($session->get("SELECT count(*) FROM $table"), 1.1 * $count + 2, '... all of them are written');
}
is($session->get(q(SELECT count(*), min(token), max(token) FROM fencing.fence WHERE external)), '200000|6|6', 'each fence is raised');
is($session->state_of(q(SELECT fencing.advance('elsewhere-177777', 5))), 'TK001', '... and stands');

# One stale resource among all of them.
my $claim = 'BEGIN; SET LOCAL fencing.token = 1; INSERT INTO issued SELECT n FROM generate_series(1, 100000) n';
$session->get($claim);
my $other = FencingSession->new($node);
$other->get(q(SELECT fencing.acquire('issued-33333', '1 hour')));
is($session->state_of('COMMIT'), 'TK001', 'one stale resource of 100,000: the COMMIT is refused');
like($session->errors, qr/resource "issued-33333"/, '... because of that one');
is($session->get('SELECT count(*) FROM issued'), '1100002', '... and nothing is written');
is($other->get(q(SELECT count(*) FROM pg_locks WHERE locktype = 'object')), '0', '... nor locked');

done_testing();
