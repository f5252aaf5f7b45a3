# 053_stuck_holder: a holder that sleeps in a transaction keeps its row locks when its lease goes to somebody else. The
# manual's query (FAQ) finds it by whom it holds up, and ends it: the successor's write goes through, and nobody else is
# touched. Who may end whose session is what pg_terminate_backend says.
#
# Caught here: a query in the manual that ends the wrong session, or none; one that needs a superuser.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fencing_node('main');
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fencing;
CREATE ROLE worker LOGIN;
CREATE ROLE oncall LOGIN IN ROLE pg_monitor, pg_signal_backend;
CREATE ROLE watcher LOGIN IN ROLE pg_monitor;
CREATE TABLE task (id int PRIMARY KEY, state text, fence_token bigint);
INSERT INTO task VALUES (1, 'new', NULL), (2, 'new', NULL);
SELECT fencing.protect('task', 'fence_token', 'job-{id}');
GRANT ALL ON task TO worker;
GRANT EXECUTE ON FUNCTION fencing.acquire, fencing.bind TO worker;
SQL

# The query, from the manual: the one that ends sessions.
my ($query) = slurp_file(tree_root() . "/README.md") =~ /```sql\n\s*(SELECT[^`]*pg_terminate_backend[^`]*?;)/
  or die "the manual has no such query\n";

sub worker_at
{
	my ($job, $holder) = @_;
	my $session = FencingSession->new($node, user => 'worker');
	my $token = $session->get("SELECT token FROM fencing.acquire('job-$job', '1 hour', '$holder', steal => 'always')");
	$session->get($_) foreach 'BEGIN', "SELECT fencing.bind('job-$job', $token)";
	return $session;
}

my $sleeper = worker_at(1, 'sleeper');
$sleeper->get("UPDATE task SET state = 'late' WHERE id = 1");
my $other = worker_at(2, 'other');
$other->get("UPDATE task SET state = 'at work' WHERE id = 2");
my $successor = worker_at(1, 'successor');
$successor->send("UPDATE task SET state = 'done' WHERE id = 1");
my $watcher = FencingSession->new($node, user => 'watcher');
my $waits = "SELECT cardinality(pg_blocking_pids(@{[$successor->pid]}))";
ok(until_true(sub { $watcher->get($waits) eq '1' }), 'the successor waits for the row');
is($watcher->get(q(SELECT holder, state FROM fencing.leases WHERE resource = 'job-1')), 'successor|held', '... though it has the lease');

is($watcher->state_of($query), '42501', 'who may only watch ends nobody');
is($successor->answered(0), 0, '... and the successor still waits');
my $oncall = FencingSession->new($node, user => 'oncall');
like($oncall->get($query), qr/^\Q@{[$sleeper->pid]}\E\|worker\|[^\n]*\|t$/, 'who may signal ends the sleeper, and nobody else');
$successor->wait;
is($successor->sqlstate, '00000', '... and the successor writes');
is($successor->state_of('COMMIT'), '00000', '... and commits');
is($sleeper->state_of('COMMIT'), 'lost', 'the sleeper has lost its connection');
is($other->state_of('COMMIT'), '00000', 'a holder that holds up nobody commits');
is($watcher->get('SELECT 1'), 1, '... and who watched is there');
is($node->safe_psql('postgres', 'SELECT string_agg(state, $$,$$ ORDER BY id) FROM task' =~ s/\$\$/'/gr), 'done,at work', 'what was written');
is($oncall->get($query), '', 'afterwards the query finds nobody');

# A superuser's session is a superuser's to end.
$sleeper = FencingSession->new($node);
my $token = $sleeper->get(q(SELECT token FROM fencing.acquire('job-1', '1 hour', steal => 'always')));
$sleeper->get($_) foreach 'BEGIN', "SELECT fencing.bind('job-1', $token)", "UPDATE task SET state = 'late' WHERE id = 1";
$successor = worker_at(1, 'successor');
$successor->send("UPDATE task SET state = 'done again' WHERE id = 1");
$waits = "SELECT cardinality(pg_blocking_pids(@{[$successor->pid]}))";
ok(until_true(sub { $watcher->get($waits) eq '1' }), 'a superuser sleeps');
is($oncall->state_of($query), '42501', '... and is not ended');
is($sleeper->state_of('COMMIT'), 'TK001', '... its COMMIT is refused');
$successor->wait;
is($successor->state_of('COMMIT'), '00000', '... and the successor commits');

done_testing();
