# FencingShard: workers of the programs of docs/lock-services, as processes that a test steers, stops and wakes; and
# what becomes of a late write when the program is as it stands, or has lost a line of fencing.
package FencingShard;

use strict;
use warnings;

use FencingSession;
use FencingTest;
use IO::Select;
use IPC::Open3 qw(open3);
use POSIX qw(WNOHANG);
use PostgreSQL::Test::Utils;
use Test::More;

my @workers;

# new($program): a server with the table that the program wants, in two databases; in the second it is not protected.
# Workers have no rights but these.
sub new
{
	my ($class, $program) = @_;
	my $node = fencing_node($program);
	$node->start;
	my $folder = tree_root() . '/docs/lock-services';
	my $self = bless { program => $program, node => $node, folder => $folder }, $class;
	my $text = slurp_file("$self->{folder}/$program.py");
	my $schema = join "\n", $text =~ /^#   (\S.*;)$/mg;
	like($schema, qr/^CREATE TABLE shard .*INSERT INTO shard .*fencing\.protect/s, 'the program says which table it wants');
	$node->safe_psql('postgres', 'CREATE ROLE worker LOGIN; CREATE DATABASE unprotected');
	$schema =~ s/VALUES \(1, 'new'\)/SELECT n, 'new' FROM generate_series(1, 9) AS n/;
	my %schema = (postgres => $schema, unprotected => $schema =~ s/^.*fencing\.protect.*$//mr);
	$node->safe_psql($_, <<"SQL") foreach sort keys %schema;
CREATE EXTENSION fencing;
$schema{$_}
GRANT SELECT, UPDATE ON shard TO worker;
GRANT EXECUTE ON FUNCTION fencing.advance TO worker;
SQL
	# The same program, without its line.
	$self->{not_advanced} = PostgreSQL::Test::Utils::tempdir();
	is(scalar(() = $text =~ /# fencing$/mg), 1, 'one line of it is marked as that of fencing');
	append_to_file("$self->{not_advanced}/$program.py", $text =~ s/^.*# fencing\n//mr);
	return $self;
}

sub node { return $_[0]->{node}; }

# A worker as a process: worker($service, $shard, $holder, $ttl, $variant).
sub worker
{
	my ($self, $service, $shard, $holder, $ttl, $variant) = @_;
	$variant ||= '';
	my $dsn = $self->{node}->connstr($variant eq 'unprotected' ? 'unprotected' : 'postgres') . ' user=worker';
	my $folder = $variant eq 'not_advanced' ? $self->{not_advanced} : $self->{folder};
	my $process = open3(my $in, my $out, '>&STDERR', '/usr/bin/python3', tree_root() . '/test/services/hold_shard.py',
		$folder, $self->{program}, $service, $dsn, $shard, $holder, $ttl);
	$in->autoflush(1);
	my $worker = { process => $process, in => $in, out => $out, text => '' };
	push @workers, $worker;
	return $worker;
}

# The next line that a worker prints; '' when none comes.
sub line_of
{
	my ($worker) = @_;
	until_true(
		sub {
			return 1 if $worker->{text} =~ /\n/;
			return 0 if !IO::Select->new($worker->{out})->can_read(0.05);
			return !sysread $worker->{out}, $worker->{text}, 4096, length $worker->{text};
		}, 90);
	return $1 if $worker->{text} =~ s/^([^\n]*)\n//;
	diag "a worker has ended, with status $?" if waitpid($worker->{process}, WNOHANG) > 0;
	return '';
}

# A worker has finished, with this result; what came of it.
sub finish
{
	my ($worker, $result) = @_;
	print { $worker->{in} } "$result\n";
	my $answer = line_of($worker);
	waitpid $worker->{process}, 0;
	return $answer;
}

sub suspend
{
	my ($worker) = @_;
	stop_process($worker->{process});
	return;
}

sub wake { return kill 'CONT', $_[0]->{process}; }

# What is in a shard, and its token; with the table that is not protected, the same of that.
sub state_of { return $_[0]->{node}->safe_psql($_[2] || 'postgres', "SELECT state FROM shard WHERE id = $_[1]"); }
sub token_of { return $_[0]->{node}->safe_psql($_[2] || 'postgres', "SELECT fence_token FROM shard WHERE id = $_[1]"); }
sub fence_of { return $_[0]->{node}->safe_psql('postgres', "SELECT token FROM fencing.lookup('shard:$_[1]')"); }

# late_writes($first, $second, $fail_over): the same story with four shards at a time. A first worker, of the service
# at $first->(), sleeps past its lock; $fail_over->() happens to the service; a second worker, of the service at
# $second->(), gets the lock, and the first one wakes up and writes. Returns the tokens of the two workers of shard 1.
sub late_writes
{
	my ($self, $first, $second, $fail_over) = @_;
	my %variant = (1 => '', 2 => '', 3 => 'not_advanced', 4 => 'unprotected');
	my (%first, %second);
	$first{$_} = $self->worker($first->(), $_, 'first', 8, $variant{$_}) foreach 1 .. 4;
	is(line_of($first{$_}), 'working on new', "shard $_: the first worker has the lock and works") foreach 1 .. 4;
	my @tokens = $self->fence_of(1);
	suspend($first{$_}) foreach 1 .. 4;
	$fail_over->();
	$second{$_} = $self->worker($second->(), $_, 'second', 20, $variant{$_}) foreach 1 .. 4;
	is(line_of($second{$_}), 'working on new', "shard $_: it sleeps past its lock, and a second one works") foreach 1 .. 4;
	push @tokens, $self->fence_of(1);
	cmp_ok($tokens[1], '>', $tokens[0], 'the second one has the greater token');

	is(finish($second{1}, 'by second'), 'done', 'the second one writes');
	is($self->token_of(1), $tokens[1], 'with its token');
	wake($first{1});
	is(finish($first{1}, 'by first'), 'stale', 'the first one wakes up, writes, and is refused');
	is($self->state_of(1), 'by second', 'the result of the second one stands');

	wake($first{2});
	is(finish($first{2}, 'by first'), 'stale', 'refused before the second one has written: it has advanced the fence');
	is($self->state_of(2), 'new', 'nothing has changed under the second one');
	is(finish($second{2}, 'by second'), 'done', 'which writes');

	wake($first{3});
	is(finish($first{3}, 'by first'), 'done', 'without the line that advances: the first one is told that it is done');
	is($self->state_of(3), 'by first', 'its write has come in behind the back of the second one');
	is(finish($second{3}, 'by second'), 'done', 'which writes what it has made of the state before');
	is($self->state_of(3), 'by second', 'and overwrites it');

	is(finish($second{4}, 'by second'), 'done', 'without the line that protects: the second one writes');
	wake($first{4});
	is(finish($first{4}, 'by first'), 'done', 'and so does the first one');
	is($self->state_of(4, 'unprotected'), 'by first', 'whose late write overwrites it');
	return @tokens;
}

END
{
	my $status = $?;
	foreach my $worker (@workers)
	{
		next if waitpid($worker->{process}, WNOHANG) != 0;    # has ended: the pid may be another's by now
		kill 'KILL', $worker->{process};
		waitpid $worker->{process}, 0;
	}
	$? = $status;
}

1;
