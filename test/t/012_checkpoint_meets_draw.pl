# 012_checkpoint_meets_draw: I1, a token is not handed out again after a crash, also when a whole checkpoint passes while
# the draw is at work. The draw needs no WAL of its own when enough was logged ahead; a checkpoint that began and ended between that
# decision and the draw would leave neither a page nor WAL that knows the token.
#
# Caught here: a page that is marked dirty only after the redo pointer was read.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $node = fencing_node('main');
$node->append_conf('postgresql.conf', "autovacuum = off\nbgwriter_lru_maxpages = 0\nlog_statement = none\n" . stop_point_conf());
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION fencing; CREATE TABLE big AS SELECT n, repeat(\'x\', 500) AS pad FROM generate_series(1, 20000) n; CREATE INDEX ON big (n)');
# So few that a scan evicts every page.
$node->append_conf('postgresql.conf', 'shared_buffers = 128kB');
$node->restart;

# The draw at work is one that writes the next record early, not flushed when it returns; or one that writes none.
foreach my $draws (1, 2)
{
	my $drawing = FencingSession->new($node);
	my $other = FencingSession->new($node);
	$drawing->get('SELECT fencing.next_token()');
	$other->get('CHECKPOINT');
	# Logged ahead since the checkpoint.
	my $last = $drawing->get("SELECT max(fencing.next_token()) FROM generate_series(1, $draws)");
	# The page of the sequence is written and gone, without a checkpoint.
	$other->get('SET enable_seqscan = off; SELECT count(pad) FROM big WHERE n > 0');
	$drawing->get(q(SET fencing.stop_points = 'draw_covered'));
	$drawing->send('SELECT fencing.next_token()');
	ok(until_true(sub { process_state($drawing->pid) eq 'T' }, 30), "after $draws draws: one that is covered stops before it draws");
	$other->send('CHECKPOINT');
	# Right, it waits for the page; wrong, it is done soon.
	$other->answered(5);
	kill 'CONT', $drawing->pid;
	$drawing->wait(60);
	$other->wait(60);
	my $drawn = $drawing->answer;
	is($drawn, $last + 1, "after $draws draws: the draw goes on");
	crash_server($node);
	$node->start;
	cmp_ok($node->safe_psql('postgres', 'SELECT fencing.next_token()'),
		'>', $drawn, "after $draws draws: the token is not issued again after a crash");
}

done_testing();
