# nemesis.pl: workers against servers to which everything happens, then the checker.
#
# Usage: nemesis.pl PROGRAMS SEED SECONDS WORKERS AIM RESULT
#
# AIM is `all`, or the deliberate fault that the library under test has: then the nemesis does most what brings it to
# light, the checker looks every few seconds, and the run ends as soon as it sees a violation of the rule that the fault
# breaks; others it may break as well. RESULT is the file that gets the checker's last report, and a line `verdict clean` or `verdict violated`.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

use TortureNemesis;
use TortureServers;
use TortureWorkers;

my ($programs, $seed, $seconds, $count, $aim, $result) = @ARGV;
die "usage: nemesis.pl PROGRAMS SEED SECONDS WORKERS AIM RESULT\n" if !defined $result;

my %none = map { $_ => 0 } keys %{ { TortureNemesis::usual_weights() } };

# What to do most where a fault is looked for: weights, seconds between faults, options of the workers, of the
# server, and how many resources are granted here.
my %aims = (
	all => { weights => {}, pause => 1, options => [] },
	no_flush => {
		rule => 'I1', weights => { %none, crash => 1 }, pause => 1, options => [ '--draws', 95 ], conf => own_flush_conf() },
	no_seal => { rule => 'I5', weights => { %none, stop => 1 }, pause => 1, options => [] },
	# So many that after a promotion nobody has come yet where an old tenure goes on.
	epoch_unjudged => {
		rule => 'I5', weights => { %none, promote => 1, stop => 1 }, pause => 0.5, options => [], own => 60 },
	no_lock_at_seal => { rule => 'I5', weights => { %none, stop => 1 }, pause => 1, options => [] },
	no_lock_at_grant => { rule => qr/I[25]/, weights => { %none, stop => 1 }, pause => 1, options => [] },
);
my $chosen = $aims{$aim} or die "there is no aim $aim\n";
my ($faketime) = $aim eq 'all' ? glob('/usr/lib/*/faketime/libfaketime.so.1') : ();

# What has been started is stopped on the way out.
$SIG{TERM} = $SIG{INT} = sub { die "ended by a signal\n" };

my $histories = PostgreSQL::Test::Utils::tempdir();
my $servers = TortureServers->new($programs,
	own => $chosen->{own} || 6, outside => 2, conf => $chosen->{conf}, faketime => $faketime);
my $workers = TortureWorkers->new("$programs/torture-worker", $histories,
	count => $count, seed => $seed, conninfo => $servers->conninfo, options => $chosen->{options});
my $nemesis = TortureNemesis->new($servers, $workers, "$histories/nemesis", $seed,
	weights => $chosen->{weights}, pause => $chosen->{pause});

# Whether the checker finds nothing wrong so far. Its report becomes the result.
sub is_clean
{
	$servers->dump_tables("$histories/dump");
	my $report;
	IPC::Run::run(
		["$programs/torture-checker", '--dump', "$histories/dump", $nemesis->path, $workers->histories],
		'>', \$report, '2>&1');
	my $status = $? >> 8;
	open my $file, '>', $result or die "$result: $!";
	print $file $report;
	close $file;
	die "the checker failed: $report\n" if $status > 1;
	return $status == 0 if $aim eq 'all';
	return $report !~ /^violation of $chosen->{rule}:/m;
}

my $begun = time;
my $end = $begun + $seconds;
# The longer it runs, the longer the checker has to read.
my $every = sub { return $aim ne 'all' ? 5 : 60 + 0.2 * (time - $begun) };
my $look = time + $every->();
my $clean = 1;
$workers->start_all;
while ($clean && time < $end)
{
	$nemesis->step;
	my @fallen = $workers->fallen;
	die "workers @fallen have ended by themselves\n" if @fallen;
	next if time < $look;
	$clean = is_clean();
	$look = time + $every->();
}
$nemesis->wake;
my $left = $workers->finish(90);
$clean = is_clean() && $clean;
my $prepared = $servers->primary->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts');
$servers->stop;

# What no worker may have been told: a server that gave up by itself, an internal error.
my @bad_lines;
foreach my $log (glob("$PostgreSQL::Test::Utils::log_path/*_life*.log"))
{
	open my $handle, '<', $log or die "$log: $!";
	push @bad_lines, grep { /\bPANIC:|^TRAP:| XX\w{3} torture / } <$handle>;
	close $handle;
}
diag(@bad_lines[0 .. ($#bad_lines < 9 ? $#bad_lines : 9)]) if @bad_lines;

open my $file, '>>', $result or die "$result: $!";
print $file 'verdict ' . ($clean ? 'clean' : 'violated') . "\n";
close $file;
if ($ENV{TORTURE_KEEP})
{
	system_or_bail('cp', '-r', $histories, $ENV{TORTURE_KEEP});
}
is($left, 0, 'every worker came to an end');
is(scalar @bad_lines, 0, 'no server panicked, and none had an internal error');
is($prepared, 0, 'nothing is left prepared');
ok($clean, 'no violation') if $aim eq 'all';
ok(!$clean, "the checker has found $aim") if $aim ne 'all';
done_testing();
