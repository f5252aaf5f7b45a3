# 034_epoch_fast_forward: fast_forward past an epoch begins another, as a change of identity does: every tenure ends at
# once, for all sessions, whatever becomes of the call's transaction, and what was recorded survives a crash, and a
# promotion that has lost the first draw after it (I1, I5). Within the epoch it ends nothing.
#
# Caught here: an epoch that a session has cached and goes on with; a jump that is not recorded, or recorded by the next
# draw only; a record that ROLLBACK takes back, or that is not flushed; an epoch that a new extension inherits from the
# one that was dropped.
use strict;
use warnings;

use FencingHistory;
use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fencing_node('main', allows_streaming => 1);
$node->append_conf('postgresql.conf', own_flush_conf() . <<'CONF');
restart_after_crash = on
log_statement = none
CONF
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fencing;
CREATE TABLE task (id int PRIMARY KEY, body text, fence_token bigint);
SELECT fencing.protect('task', 'fence_token', resource => 'job-{id}');
CREATE TABLE shard (id int PRIMARY KEY, body text, fence_token bigint);
SELECT fencing.protect('shard', 'fence_token', resource => 'shard-{id}', issuer => 'external');
SELECT fencing.advance('shard-1', 50);
SQL
my $tokens = FencingHistory->new;

sub start_of
{
	my ($epoch) = @_;
	return $epoch << 40;
}

sub crash_and_start
{
	crash_server($node);
	$node->start;
	return FencingSession->new($node);
}

# ---- within the epoch

my $director = FencingSession->new($node);
my $bound = FencingSession->new($node);
my $writer = FencingSession->new($node);
my $job = $tokens->see($director->get(q(SELECT token FROM fencing.acquire('job-1', '1 hour', 'worker 1'))));
my $record = record_of($node);
$bound->get($_) foreach 'BEGIN', "SELECT fencing.bind('job-1', $job)";
$writer->get($_) foreach 'BEGIN', "INSERT INTO task VALUES (1, 'written before', $job)";
my $within = start_of(1) - 1000;
is($director->get("SELECT fencing.fast_forward($within)"), $within, 'fast_forward within the epoch');
is(record_of($node), $record, '... records nothing');
is($bound->state_of('COMMIT'), '00000', '... a transaction that was bound commits');
is($writer->state_of('COMMIT'), '00000', '... and one that has written');
isnt($director->get("SELECT fencing.renew('job-1', $job)"), '', '... the lease can be renewed');
is($director->get(q(SELECT count(*) FROM fencing.acquire('job-1'))), '0', '... and is in force');
is($director->get("SELECT fencing.fast_forward(5)"), $within, '... a lower one changes nothing');

# ---- past the epoch, by a transaction that stays open and then rolls back

my $renewer = FencingSession->new($node);
my $drawer = FencingSession->new($node);
$tokens->see(draw($drawer, 3));
isnt($renewer->get("SELECT fencing.renew('job-1', $job)"), '', 'a session that has worked out the epoch');
$bound->get($_) foreach 'BEGIN', "SELECT fencing.bind('job-1', $job)";
$writer->get($_) foreach 'BEGIN', "UPDATE task SET body = 'bound to fail', fence_token = $job";
my $external = FencingSession->new($node);
$external->get($_) foreach 'BEGIN', q(INSERT INTO shard VALUES (1, 'external', 50)), q(SELECT fencing.bind('shard-1', 51));
my $observer = FencingSession->new($node, options => '-c fencing.enforcement=observe');
$observer->get($_) foreach 'BEGIN', "SELECT fencing.bind('job-1', $job)";
my $in_block = FencingSession->new($node);
$in_block->get($_) foreach 'BEGIN', "SELECT fencing.bind('job-1', $job)";

my $past = start_of(3) + 500;
$director->get($_) foreach 'BEGIN', 'SAVEPOINT s';
is($director->get("SELECT fencing.fast_forward($past)"), $past, 'fast_forward past two epochs, uncommitted');
$director->get('ROLLBACK TO s');
isnt(record_of($node), $record, '... is recorded');
$tokens->begin_life;
is_over($bound, 'COMMIT', '... a transaction that was bound before cannot commit');
is_over($writer, 'COMMIT', '... nor one that has written before');
is($node->safe_psql('postgres', 'SELECT body FROM task'), 'written before', '... and nothing of it is there');
is($external->state_of('COMMIT'), '00000', '... one with tokens from elsewhere can');
is($observer->state_of('COMMIT'), '00000', '... and one that is only observed');
like($observer->errors, qr/WARNING:.*stale fencing token/, '... with a WARNING');
is_over($in_block, "SELECT fencing.bind('job-1', $job)", '... the next bind of a transaction is refused');
is_over($bound, "SELECT fencing.bind('job-1', $job)", '... as is the bind of the next');
is($renewer->get("SELECT fencing.renew('job-1', $job)"), '', '... the lease is lost to its holder');
is($renewer->get("SELECT fencing.release('job-1', $job)"), 'f', '... who cannot release it either');
is_over($writer, "UPDATE task SET body = 'late', fence_token = $job", '... a guarded write is refused');
is($node->safe_psql('postgres', q(SELECT token, holder, expires_at FROM fencing.lookup('job-1'))), "$job||",
	'... lookup shows the fence and no lease');
my $drawn = $drawer->get('SELECT fencing.next_token()');
is($tokens->see($drawn), $past + 1, '... the next token is the one above');
is($director->state_of('ROLLBACK'), '00000', 'the caller rolls back');
is($tokens->see($director->get('SELECT fencing.next_token()')), $past + 2, '... and the epoch stays');
my $next = $tokens->see($renewer->get(q(SELECT token FROM fencing.acquire('job-1', '1 hour', 'worker 2'))));
cmp_ok($next, '>', $past, 'the resource is granted at once, in the new epoch');
is($writer->state_of("UPDATE task SET body = 'successor', fence_token = $next"), '00000', '... its token counts');
is($tokens->faults, '0 0', 'no token came twice or too low');

# ---- a transaction that has looked already, and holds every lock that a look takes

{
	my $session = FencingSession->new($node);
	my $mine = $tokens->see($director->get(q(SELECT token FROM fencing.acquire('job-2', '1 hour'))));
	$session->get($_) foreach 'BEGIN', "SELECT fencing.renew('job-2', $mine)", "SELECT fencing.renew('job-2', $mine)";
	$director->get('SELECT fencing.fast_forward(' . start_of(5) . ')');
	is($session->get("SELECT fencing.renew('job-2', $mine)"), '', 'the next renew of an open transaction says lost');
	is($session->get("SELECT fencing.release('job-2', $mine)"), 'f', '... and release too');
	is($session->get(q(SELECT expires_at FROM fencing.lookup('job-2'))), '', '... and lookup shows no lease');
	$session->get('ROLLBACK');
	$session->get($_) foreach 'BEGIN', q(SELECT count(*) FROM fencing.acquire('job-3'));
	my $held = $tokens->see($director->get(q(SELECT token FROM fencing.acquire('job-4', '1 hour'))));
	is($session->get(q(SELECT count(*) FROM fencing.acquire('job-4'))), '0', 'a lease of another session stands');
	$director->get('SELECT fencing.fast_forward(' . start_of(6) . ')');
	my $granted = $session->get(q(SELECT token FROM fencing.acquire('job-4')));
	cmp_ok($granted || 0, '>', $held, '... and is free to an open transaction afterwards');
	$tokens->see($granted) if $granted;
	$session->get('COMMIT');
	is($tokens->faults, '0 0', 'no token came twice or too low');
}

# ---- the last tokens of an epoch, and the first of the next

{
	my @sessions = map { FencingSession->new($node) } 1 .. 2;
	my $held = $tokens->see($director->get(q(SELECT token FROM fencing.acquire('job-5', '1 hour'))));
	my $epoch = epoch_of($held);
	$tokens->see(draw($_, 1)) foreach @sessions;
	$director->get('SELECT fencing.fast_forward(' . (start_of($epoch + 1) - 4) . ')');
	$tokens->begin_life;
	my @drawn = map { draw($sessions[$_ % 2], 1) } 1 .. 3;
	$tokens->see(@drawn);
	is("@drawn", join(' ', map { start_of($epoch + 1) - $_ } 3, 2, 1), 'an epoch is used to its last token');
	is($sessions[0]->state_of("SELECT fencing.bind('job-5', $held)"), '00000', '... and ends nothing before');
	my $session = crash_and_start();
	@drawn = draw($session, 3);
	$tokens->begin_life;
	$tokens->see(@drawn);
	is("@drawn", join(' ', map { start_of($epoch + 1) + $_ } 1, 2, 3), '... the next draw begins the next, also after a crash');
	is_over($session, "SELECT fencing.bind('job-5', $held)", '... which ends every tenure');
	is($tokens->faults, '0 0', 'no token came twice or too low');
	$director = FencingSession->new($node);
}

# ---- a crash right after it, committed or not

foreach my $how ('alone', 'in an open transaction', 'rolled back', 'with synchronous_commit off')
{
	my $holder = $tokens->see($node->safe_psql('postgres',
		q(SELECT token FROM fencing.acquire('job-crash', '1 hour', steal => 'always'))));
	my $session = FencingSession->new($node);
	my $above = start_of(epoch_of($tokens->highest) + 2);
	$session->get('SET synchronous_commit = off') if $how =~ /off/;
	$session->get('BEGIN') if $how =~ /open|back/;
	$session->get("SELECT fencing.fast_forward($above)");
	$session->get('ROLLBACK') if $how =~ /back/;
	my $before = record_of($node);
	my $after = crash_and_start();
	is(record_of($node), $before, "$how: the record survives a crash");
	is_over($after, "SELECT fencing.bind('job-crash', $holder)", '... and so does the end of the tenure');
	$tokens->begin_life;
	is($tokens->see($after->get('SELECT fencing.next_token()')), $above + 1, '... and the place of the sequence');
}

# ---- a promotion that has lost the first draw after it

my $serial = 0;

# The successor of a primary whose draws after $sql were lost.
sub successor_without_draws
{
	my ($primary, $sql) = @_;
	my $standby = standby_of($primary, 'successor' . ++$serial);
	$primary->safe_psql('postgres', $sql);
	caught_up($primary, $standby);
	cut_off($standby);
	my $session = FencingSession->new($primary);
	$tokens->see(draw($session, 600));
	$tokens->see($session->get(q(SELECT token FROM fencing.acquire('lost', '1 hour'))));
	fail_over($primary, $standby);
	return $standby;
}

my $lost_epoch = epoch_of($tokens->highest) + 3;
my $second = successor_without_draws($node, 'SELECT fencing.fast_forward(' . start_of($lost_epoch) . ')');
is(epoch_of($tokens->highest), $lost_epoch, 'the primary has drawn in the epoch that fast_forward began');
$tokens->begin_life;
is_over(FencingSession->new($second), "SELECT fencing.bind('lost', " . $tokens->highest . ')',
	'promoted without these draws: a grant that was lost is of an earlier epoch');
my $session = FencingSession->new($second);
is(epoch_of($tokens->see(draw($session, 300))), $lost_epoch + 1, '... and new tokens are of the next');
is($tokens->faults, '0 0', '... none came twice or too low');

# ---- DROP EXTENSION forgets everything: fast_forward above all that was issued makes up for it

my $cached = FencingSession->new($second);
$tokens->see($cached->get('SELECT fencing.next_token()'));
my $above = $tokens->highest;
$tokens->begin_life;
my $third = successor_without_draws($second, <<"SQL");
DROP EXTENSION fencing CASCADE;
CREATE EXTENSION fencing;
SELECT fencing.fast_forward($above);
SQL
is($tokens->faults, '0 0', 're-created: all tokens are above what fast_forward was given');
$tokens->begin_life;
$session = FencingSession->new($third);
is_over($session, "SELECT fencing.bind('lost', " . $tokens->highest . ')',
	'promoted without the draws after it: a grant that was lost is of an earlier epoch');
$tokens->see(draw($session, 300));
is($tokens->faults, '0 0', '... and no token came twice or too low');
note($tokens->count . ' tokens');

done_testing();
