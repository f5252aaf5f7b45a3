# FencingLoad: the workers and the checker of test/torture as the load and the judge of another test, which brings servers
# and faults of its own.
package FencingLoad;

use strict;
use warnings;

use FencingSession;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

use lib tree_root() . '/test/torture/perl';
use TortureWorkers;

# make_tables($conninfo): what the workers work with.
sub make_tables
{
	my ($conninfo) = @_;
	IPC::Run::run(['psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-v', 'own=6', '-v', 'outside=2', '-d', $conninfo,
		'-f', tree_root() . '/test/torture/schema.sql'], '>', '/dev/null') or die "the tables are not there\n";
	return;
}

# new(programs => FOLDER, directory => for the histories, count => N, seed => N, conninfo => TEXT, options => [...]):
# workers, at work.
sub new
{
	my ($class, %options) = @_;
	my ($programs, $directory) = delete @options{qw(programs directory)};
	mkdir $directory;
	my $workers = TortureWorkers->new("$programs/torture-worker", $directory, %options);
	$workers->start_all;
	append_to_file("$directory/nemesis", '');
	return bless { workers => $workers, programs => $programs, directory => $directory, faults => 0 }, $class;
}

# As the workers note it.
sub now { return int(clock_gettime(CLOCK_MONOTONIC) * 1_000_000_000); }

# How often the worker of the history was told that something is committed.
sub commits
{
	my ($history) = @_;
	my %asked;
	my $count = 0;
	foreach (split /\n/, slurp_file($history))
	{
		my (undef, $process, $number, $what, $verb) = split / /;
		$asked{"$process $number"} = 1 if $what eq 'invoke' && $verb eq 'commit';
		$count++ if $what eq 'ok' && delete $asked{"$process $number"};
	}
	return $count;
}

# A check: each worker is told of so many more commits.
sub works_on
{
	my ($self, $more, $name) = @_;
	my $workers = $self->{workers};
	until_true(sub { $workers->histories == $workers->{count} }, 60) or die "a worker has no history\n";
	my %before = map { $_ => commits($_) } $workers->histories;
	return ok(until_true(sub { !grep { commits($_) < $before{$_} + $more } $workers->histories }, 120, 0.2), $name);
}

# New processes in the place of the old ones, which are killed.
sub replace_all
{
	my ($self) = @_;
	$self->{workers}->replace($_) foreach 1 .. $self->{workers}{count};
	return;
}

# Notes for the checker what happens while the function runs, and returns its answer. Commits that were acknowledged after
# $safe, a time of now(), may be lost; undef: none may.
sub fault
{
	my ($self, $kind, $safe, $function) = @_;
	my $number = ++$self->{faults};
	$kind =~ tr/ /_/;
	append_to_file("$self->{directory}/nemesis", now() . " nemesis $number invoke fault kind=$kind" . ($safe ? " safe=$safe" : '') . "\n");
	my $answer = $function->();
	append_to_file("$self->{directory}/nemesis", now() . " nemesis $number ok\n");
	return $answer;
}

# Checks: the workers come to an end, and the checker finds nothing wrong in what they have noted and in the tables.
sub judge
{
	my ($self, $name, $conninfo) = @_;
	is($self->{workers}->finish(90), 0, "$name: the workers come to an end");
	my $begun = now();
	my ($life, $tables, $report) = ('', '', '');
	my @psql = ('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $conninfo);
	IPC::Run::run([ @psql, '-c', 'SELECT life()' ], '>', \$life) && IPC::Run::run([ @psql, '-f', tree_root() . '/test/torture/dump.sql' ], '>', \$tables)
	  or die "no dump\n";
	append_to_file("$self->{directory}/dump", "dump $begun " . now() . " $life$tables");
	my $clean = IPC::Run::run([ "$self->{programs}/torture-checker", '--dump', "$self->{directory}/dump", "$self->{directory}/nemesis",
		$self->{workers}->histories ], '>', \$report, '2>&1');
	ok($clean, '... the checker finds no violation');
	like($report, qr/ TK001 [1-9]/, '... and stale writes were tried, and refused');
	diag("$name:\n$report");
	return;
}

1;
