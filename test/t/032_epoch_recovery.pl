# 032_epoch_recovery: recovery to a point before the last draws, and a primary that is rewound to its successor and
# promoted again, are changes of identity as a promotion is: later tokens are above all, and every tenure is over. A
# crash, or a clean restart, is none: the epoch stays, and so do its leases (I1, I5).
#
# Caught here: an epoch that goes by the timeline of the last checkpoint, or by a state that the recovered data directory
# carries with it; a jump from wherever the sequence stands; a move that a crash right after the promotion, or after the
# first draw, takes back; a crash that ends a tenure.
use strict;
use warnings;

use FencingHistory;
use FencingSession;
use FencingTest;
use File::Copy qw(copy);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $main = fencing_node('main', has_archiving => 1, allows_streaming => 1);
$main->append_conf('postgresql.conf', own_flush_conf() . <<'CONF');
restart_after_crash = on
wal_log_hints = on
log_statement = none
CONF
$main->start;
$main->safe_psql('postgres', 'CREATE EXTENSION fencing');
my $tokens = FencingHistory->new;

sub granted
{
	my ($session, $resource) = @_;
	return $tokens->see($session->get("SELECT token FROM fencing.acquire('$resource', '1 hour')"));
}

sub crash
{
	my ($server) = @_;
	crash_server($server);
	$server->start;
	return FencingSession->new($server);
}

# ---- recovery to a point, twice to the same one, from one backup and one archive

$main->backup('base');
my $session = FencingSession->new($main);
my $job = granted($session, 'job-1');
$tokens->see(draw($session, 300));
$session->get(q(SELECT pg_create_restore_point('early')));
my $forgotten = granted($session, 'job-2');
$tokens->see(draw($session, 600));
$session->get('SELECT pg_switch_wal()');
my $segment = $session->get(q(SELECT pg_walfile_name(pg_current_wal_lsn() - 1)));
$main->poll_query_until('postgres', "SELECT last_archived_wal >= '$segment' FROM pg_stat_archiver")
  or die "the archiver is stuck\n";
$main->stop('immediate');

sub recover
{
	my ($name) = @_;
	my $restored = PostgreSQL::Test::Cluster->new($name);
	$restored->init_from_backup($main, 'base', has_restoring => 1, standby => 0);
	$restored->append_conf('postgresql.conf', "recovery_target_name = 'early'\nrecovery_target_action = promote\n");
	$restored->start;
	$restored->poll_query_until('postgres', 'SELECT pg_is_in_recovery()', 'f') or die "$name does not end its recovery\n";
	# Not for its standbys.
	$restored->append_conf('postgresql.conf', "recovery_target_name = ''\nrestore_command = ''\n");
	$tokens->begin_life;
	return $restored;
}

my $server;
foreach my $time (1, 2)
{
	$server->stop('immediate') if $server;
	$server = recover("restored$time");
	$session = FencingSession->new($server);
	is($session->get(q(SELECT token FROM fencing.lookup('job-1'))), $job,
		"recovered to a point, time $time: the fence of the lease is there");
	is_over($session, "SELECT fencing.bind('job-1', $job)", '... the lease is over');
	is_over($session, "SELECT fencing.bind('job-2', $forgotten)", '... and what was granted after the point as well');
	my $again = granted($session, 'job-1');
	is(epoch_of($again), $time, '... it is granted again, in a later epoch');
	$tokens->see(draw($session, 600));
	is($tokens->faults, '0 0', '... and no token came twice or too low');
	# For the next one to know of this timeline.
	my $archived = sprintf '%08X.history.done', $time + 1;
	$server->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_ls_archive_statusdir() WHERE name = '$archived'")
	  or die "the history file is not archived\n";
}

# ---- a crash is no change of identity; nor is a restart

my $held = granted($session, 'job-3');
my $record = record_of($server);
my $epoch = epoch_of($held);
foreach my $how ('a crash', 'another', 'a clean restart', 'the death of one process')
{
	# How far the draws of this life are logged ahead differs from round to round.
	$tokens->see(draw($session, $how eq 'another' ? 400 : 3));
	$session->get($_) foreach 'BEGIN', "SELECT fencing.bind('job-3', $held)";
	if ($how =~ /crash|another/)
	{
		$session = crash($server);
	}
	elsif ($how =~ /restart/)
	{
		$server->restart;
		$session = FencingSession->new($server);
	}
	else
	{
		my $victim = FencingSession->new($server);
		$tokens->see($victim->get('SELECT fencing.next_token()'));
		kill 'KILL', $victim->pid;
		until_true(sub { $session->state_of('SELECT 1') eq 'lost' }) or die "the server goes on\n";
		back_again($server);
		$session = FencingSession->new($server);
	}
	$tokens->begin_life;
	is($session->state_of("SELECT fencing.bind('job-3', $held)"), '00000', "after $how the token of the lease counts");
	isnt($session->get("SELECT fencing.renew('job-3', $held)"), '', '... the lease is in force');
	is(epoch_of($tokens->see(draw($session, 3))), $epoch, '... and tokens are of the same epoch');
	is($tokens->faults, '0 0', '... none came twice or too low');
	is(record_of($server), $record, '... by the same record');
}

# ---- the primary loses its place, is rewound to the successor, follows it, and succeeds it

my $old = $server;
my $new = standby_of($old, 'new');
# Its promotion's checkpoint has something to write, and takes its time.
$new->append_conf('postgresql.conf', "checkpoint_timeout = 1h\nbgwriter_lru_maxpages = 0\n");
$new->reload;
$session->get('CREATE TABLE ballast AS SELECT generate_series(1, 100000)');
caught_up($old, $new);
cut_off($new);
my $stale = granted($session, 'job-4');
$tokens->see(draw($session, 600));
fail_over($old, $new);
is_over(FencingSession->new($new), "SELECT fencing.bind('job-3', $held)",
	'promoted, before the first checkpoint: the lease is over');
is($new->safe_psql('postgres', 'SELECT timeline_id FROM pg_control_checkpoint()'), '3',
	'... while pg_control does not know yet');
# Killed in the moment of its promotion, before the first draw.
$session = crash($new);
$tokens->begin_life;
is_over($session, "SELECT fencing.bind('job-3', $held)", 'killed right after its promotion: the lease is over');
is(epoch_of(granted($session, 'job-4')), $epoch + 1, '... and the first draw is in the next epoch');
$session = crash($new);
$tokens->begin_life;
is(epoch_of($tokens->see(draw($session, 3))), $epoch + 1, 'killed right after its first draw: the epoch stays');
is($tokens->faults, '0 0', '... no token came twice or too low');
$session->get('CHECKPOINT');    # pg_rewind looks at the timeline of the last one

copy($old->data_dir . '/postgresql.conf', $old->basedir . '/postgresql.conf') or die "could not save the configuration: $!";
command_ok(['pg_rewind', '--no-sync', '-D', $old->data_dir, '--source-server', $new->connstr('postgres')],
	'the old primary is rewound to the new one');
copy($old->basedir . '/postgresql.conf', $old->data_dir . '/postgresql.conf') or die "could not restore the configuration: $!";
$old->enable_streaming($new);
$old->start;
caught_up($new, $old);
my $follower = FencingSession->new($old);
is($follower->get(q(SELECT count(*) FROM fencing.lookup('job-4') WHERE expires_at > now())), '1',
	'... follows it, and shows its leases');
cut_off($old);
$held = granted($session, 'job-5');
$tokens->see(draw($session, 600));
fail_over($new, $old);
$tokens->begin_life;
is($follower->get(q(SELECT expires_at FROM fencing.lookup('job-4'))), '', 'the old primary is promoted: the leases are over');
is_over($follower, "SELECT fencing.bind('job-4', $stale)", '... for the token that it granted itself and lost');
is_over($follower, "SELECT fencing.bind('job-5', $held)", '... and for what its upstream granted last');
is(epoch_of(granted($follower, 'job-5')), $epoch + 2, '... and its tokens are of a later epoch');
$tokens->see(draw($follower, 600));
is($tokens->faults, '0 0', 'of ' . $tokens->count . ' tokens none came twice or too low');

done_testing();
