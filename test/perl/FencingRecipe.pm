# FencingRecipe: a program of docs/recipes under test, as a real process against a real server. All of them speak one
# protocol (docs/recipes/README.md), so one driver puts them to the same tests: check().
#
#     my $recipe = FencingRecipe->new('psycopg', build => sub { my ($folder) = @_; return ('python3', "$folder/worker.py") });
#     $recipe->check;
#
# `build` gets a copy of docs/recipes/NAME, makes of it what is to be run, and returns the command. It is called a second
# time with a copy that lacks the lines marked with a comment "fencing:".
package FencingRecipe;

use strict;
use warnings;

use FencingSession;
use FencingTest;
use IO::Select;
use IPC::Open3 qw(open3);
use PostgreSQL::Test::Utils;
use Test::More;

# The processes that this test has started and not yet waited for: pid -> 1.
my %running;

# new($name, build => sub): the recipe, built, with a server of its own that has the tables of docs/recipes/schema.sql.
sub new
{
	my ($class, $name, %options) = @_;
	my $self = bless { name => $name, build => $options{build} }, $class;
	$self->{command} = [ $self->build_copy(sub { return $_[0] }) ];
	my $node = $self->{node} = fencing_node($name);
	$node->append_conf('postgresql.conf', "listen_addresses = '127.0.0.1'\n");
	$node->start;
	$self->{db} = FencingSession->new($node);
	$self->{db}->get('CREATE EXTENSION fencing; CREATE ROLE worker LOGIN');
	$self->{db}->get(slurp_file(tree_root() . '/docs/recipes/schema.sql'));
	return $self;
}

# build_copy($change): the command for a copy of the recipe whose sources went through $change, text to text.
sub build_copy
{
	my ($self, $change) = @_;
	my $folder = PostgreSQL::Test::Utils::tempdir();
	system_or_bail('cp', '-R', tree_root() . "/docs/recipes/$self->{name}/.", $folder);
	my @sources = qx(find '$folder' -type f);
	chomp @sources;
	foreach my $file (@sources)
	{
		my $text = slurp_file($file);
		my $changed = $change->($text);
		next if $changed eq $text;
		open my $handle, '>', $file or die "could not write $file: $!";
		print $handle $changed;
		close $handle;
	}
	return $self->{build}->($folder);
}

# A row of table report with that name, as nobody's: the name is the resource.
sub add_report
{
	my ($self, $name) = @_;
	$self->{db}->get("BEGIN; SET LOCAL fencing.enforcement = off; INSERT INTO report (name, body) VALUES ('$name', 'nothing'); COMMIT");
	return $name;
}

# "body|revision|lines of its log" of a report. A program raises the revision by one.
sub report
{
	my ($self, $name) = @_;
	return $self->{db}->get(
		"SELECT body, revision, (SELECT count(*) FROM report_log AS l WHERE l.name = r.name) FROM report AS r WHERE name = '$name'");
}

# The holder of a lease, '' when it has none.
sub holder
{
	my ($self, $resource) = @_;
	return $self->{db}->get("SELECT holder FROM fencing.lookup('$resource')");
}

# start(@command): a process whose connection is in the environment.
sub start
{
	my ($self, @command) = @_;
	local $ENV{PGHOST} = '127.0.0.1';    # not every driver knows sockets
	local $ENV{PGPORT} = $self->{node}->port;
	local $ENV{PGUSER} = 'worker';
	local $ENV{PGDATABASE} = 'postgres';
	my $process = open3(my $in, my $out, '>&STDERR', @command);
	$in->autoflush(1);
	$running{$process} = 1;
	return bless { process => $process, in => $in, out => $out, text => '' }, 'FencingRecipe::Worker';
}

# worker($resource, $holder, $ttl, @command): a process of the program, or of that other one.
sub worker
{
	my ($self, $resource, $holder, $ttl, @command) = @_;
	@command = @{ $self->{command} } if !@command;
	return $self->start(@command, $resource, $holder, $ttl);
}

# granted($resource, $holder, $ttl, @command): a worker that has got its lease; its token is in {token}.
sub granted
{
	my ($self, @arguments) = @_;
	my $worker = $self->worker(@arguments);
	my $line = $worker->line;
	($worker->{token}) = $line =~ /^granted (\d+)$/ or die "$self->{name}: '$line' instead of 'granted TOKEN'\n";
	return $worker;
}

# Takes the lease of a working holder away, and writes as its new holder.
sub take_over
{
	my ($self, $resource, $body) = @_;
	my $db = $self->{db};
	my $token = $db->get("SELECT token FROM fencing.acquire('$resource', '1 hour', 'thief', steal => 'always')");
	$db->get("BEGIN; SELECT fencing.bind('$resource', $token);"
		  . " UPDATE report SET body = '$body' WHERE name = '$resource'; COMMIT") if defined $body;
	return $token;
}

# Wait until somebody waits for what the session holds.
sub blocks_somebody
{
	my ($self, $session) = @_;
	my $pid = $session->pid;
	return until_true(
		sub { $self->{db}->get("SELECT count(*) FROM pg_stat_activity WHERE $pid = ANY (pg_blocking_pids(pid))") ne '0' }, 60, 0.05);
}

# Wait until the session waits for a lock.
sub waits
{
	my ($self, $session) = @_;
	my $pid = $session->pid;
	return until_true(sub { $self->{db}->get("SELECT cardinality(pg_blocking_pids($pid))") ne '0' }, 60, 0.05);
}

# A renewal without an answer: the server process of the heartbeat is stopped, as the network may be. For programs whose
# heartbeat has a timeout.
sub check_hanging_heartbeat
{
	my ($self) = @_;
	my ($name, $resource) = ($self->{name}, $self->add_report('hanging'));
	my $worker = $self->granted($resource, 'w1', 3);
	my $pid;
	my $find = "SELECT pid FROM pg_stat_activity WHERE usename = 'worker' AND query LIKE '%fencing.renew(%'";
	ok(until_true(sub { $pid = $self->{db}->get($find) }, 60, 0.05), "$name: a heartbeat has renewed");
	stop_process($pid);
	is($worker->line, 'lost', "$name: the next time it has no answer, and stops the work");
	is($worker->status, 1, "$name: and the worker ends");
	kill 'CONT', $pid;
	is($self->report($resource), 'nothing|0|0', "$name: it has written nothing");
	return;
}

# check_traps(\@command, [$trap, $line, $what], ...): the program tries each trap and prints "TRAP: LINE" for it. Its
# arguments are the traps; each has a report of its name, which is also its resource.
sub check_traps
{
	my ($self, $command, @traps) = @_;
	my @names = map { $self->add_report($_->[0]) } @traps;
	my $program = $self->start(@$command, @names);
	foreach my $trap (@traps)
	{
		my ($name, $line, $what) = @$trap;
		is($program->line, "$name: $line", "$self->{name}: $what");
	}
	is($program->status, 0, "$self->{name}: all traps have been tried");
	return;
}

# check(): the tests that every program has to pass.
sub check
{
	my ($self) = @_;
	$self->check_plain;
	$self->check_sleeper;
	$self->check_late_write;
	$self->check_lost;
	$self->check_retry;
	$self->check_marked_line;
	return;
}

sub check_plain
{
	my ($self) = @_;
	my ($name, $resource) = ($self->{name}, $self->add_report('plain'));
	my $worker = $self->granted($resource, 'w1', 3);
	is($self->holder($resource), 'w1', "$name: a worker is granted the lease");
	ok( until_true(sub { $self->{db}->get("SELECT expires_at > acquired_at + '4500 ms' FROM fencing.lookup('$resource')") eq 't' }, 60, 0.05),
		"$name: its heartbeat keeps it for longer than the ttl");
	$worker->give('first');
	is($worker->line, 'written', "$name: it writes");
	is($worker->status, 0, "$name: and ends well");
	is($self->report($resource), 'first|1|1', "$name: its transaction is there, once");
	is($self->holder($resource), '', "$name: its lease is released");
	return;
}

# A is stopped for longer than its ttl, B takes over and writes; A wakes up with its line waiting. Which comes first, its
# heartbeat's answer or its write, is open: either way B's row stands.
sub check_sleeper
{
	my ($self) = @_;
	my ($name, $resource) = ($self->{name}, $self->add_report('sleeper'));
	my $sleeper = $self->granted($resource, 'sleeper', 2);
	stop_process($sleeper->{process});
	my $successor = $self->granted($resource, 'successor', 60);
	cmp_ok($successor->{token}, '>', $sleeper->{token}, "$name: a sleeper's lease passes, and its successor has a greater token");
	$successor->give('of the successor');
	is($successor->line, 'written', "$name: the successor writes");
	is($successor->status, 0, "$name: and ends");
	$sleeper->give('of the sleeper');
	kill 'CONT', $sleeper->{process};
	like($sleeper->line, qr/^(?:lost|refused TK001)$/, "$name: the sleeper wakes up and is stopped, or refused");
	is($sleeper->status, 1, "$name: and says so by its status");
	is($self->report($resource), 'of the successor|1|1', "$name: the successor's row stands, and nothing of the sleeper's is left");
	return;
}

# The late write that no heartbeat prevents. First: the transaction had begun before A was stopped (its first write was
# kept waiting by a lock), and goes on after B has written. Second: taken over in between two heartbeats.
sub check_late_write
{
	my ($self) = @_;
	my ($name, $resource) = ($self->{name}, $self->add_report('begun'));
	my $obstacle = FencingSession->new($self->{node});
	$obstacle->get('BEGIN; LOCK TABLE report_log IN SHARE MODE');
	my $sleeper = $self->granted($resource, 'sleeper', 3);
	$sleeper->give('of the sleeper');
	ok($self->blocks_somebody($obstacle), "$name: a worker is in the middle of its transaction");
	stop_process($sleeper->{process});
	$obstacle->get('ROLLBACK');
	my $successor = $self->granted($resource, 'successor', 60);
	$successor->give('of the successor');
	is($successor->line, 'written', "$name: it is stopped; the successor is granted the lease, and writes");
	is($successor->status, 0, "$name: and ends");
	kill 'CONT', $sleeper->{process};
	is($sleeper->line, 'refused TK001', "$name: the sleeper goes on with its transaction, and the database refuses it");
	is($sleeper->status, 1, "$name: and it ends");
	is($self->report($resource), 'of the successor|1|1', "$name: the successor's row stands");

	$resource = $self->add_report('between');
	my $unaware = $self->granted($resource, 'unaware', 600);
	$self->take_over($resource, 'of the thief');
	$unaware->give('of the unaware');
	is($unaware->line, 'refused TK001', "$name: a worker that cannot know yet that its lease is lost writes, and is refused");
	is($unaware->status, 1, "$name: and ends");
	is($self->report($resource), 'of the thief|0|0', "$name: nothing of its transaction is left");
	is($self->holder($resource), 'thief', "$name: it has not ended the lease of who came after it");
	return;
}

# The heartbeat stops the work: when it learns that the lease is lost, and when it cannot know any more.
sub check_lost
{
	my ($self) = @_;
	my ($name, $resource) = ($self->{name}, $self->add_report('stolen'));
	my $victim = $self->granted($resource, 'victim', 2);
	$self->take_over($resource);
	is($victim->line, 'lost', "$name: the heartbeat of a worker whose lease is stolen stops its work");
	is($victim->status, 1, "$name: and it ends");
	is($self->report($resource), 'nothing|0|0', "$name: it has written nothing");
	is($self->holder($resource), 'thief', "$name: and not ended the lease of the thief");

	$resource = $self->add_report('cut off');
	$victim = $self->granted($resource, 'victim', 3);
	my $cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'worker' AND query LIKE '%fencing.renew(%'";
	ok(until_true(sub { $self->{db}->get($cut) ne '' }, 60, 0.05), "$name: the connection of a heartbeat is cut");
	is($victim->line, 'lost', "$name: the work is stopped");
	is($victim->status, 1, "$name: and the worker ends");
	is($self->report($resource), 'nothing|0|0', "$name: it has written nothing");
	return;
}

# The server ends the worker's transaction: first because another one of the same holder has changed the row since the
# worker's snapshot (40001), then for a deadlock with it (40P01), in which only the worker looks for deadlocks.
sub check_retry
{
	my ($self) = @_;
	my ($name, $resource) = ($self->{name}, $self->add_report('retry'));
	my ($rival, $obstacle) = map { FencingSession->new($self->{node}) } 1 .. 2;
	my $worker = $self->granted($resource, 'w1', 600);
	my $logged = -s $self->{node}->logfile;
	$rival->get("BEGIN; SELECT fencing.bind('$resource', $worker->{token}); UPDATE report SET revision = 10 WHERE name = '$resource'");
	$worker->give('second try');
	ok($self->blocks_somebody($rival), "$name: a write waits for a transaction that changes the same row");
	$rival->get('COMMIT');
	is($worker->line, 'written', "$name: it fails with 40001, is tried again, and succeeds");
	is($worker->status, 0, "$name: and the worker ends well");
	is($self->report($resource), 'second try|11|1', "$name: on the row that the other one left, and once");

	$self->{db}->get("ALTER ROLE worker SET deadlock_timeout = '100 ms'");
	$worker = $self->granted($resource, 'w2', 600);
	$rival->get("SET deadlock_timeout = '1 h'; BEGIN; SELECT fencing.bind('$resource', $worker->{token});"
		  . " UPDATE report SET revision = 20 WHERE name = '$resource'");
	$obstacle->get('BEGIN; LOCK TABLE report_log IN SHARE MODE');
	$worker->give('third try');
	ok($self->blocks_somebody($obstacle), "$name: a write waits for a lock");
	$rival->send('LOCK TABLE report_log IN ACCESS EXCLUSIVE MODE');
	ok($self->waits($rival), "$name: and another transaction, whose row it will want, for the write");
	$obstacle->get('ROLLBACK');
	$rival->wait;
	$rival->get('COMMIT');
	is($worker->line, 'written', "$name: it fails with 40P01, is tried again, and succeeds");
	is($worker->status, 0, "$name: and the worker ends well");
	is($self->report($resource), 'third try|21|2', "$name: on the row that the other one left, and once");
	$self->{db}->get('ALTER ROLE worker RESET deadlock_timeout');
	# The retry may begin before the rival's COMMIT; then its snapshot is too old once more.
	like(join(', ', slurp_file($self->{node}->logfile, $logged) =~ /ERROR:  (could not serialize|deadlock detected)/g),
		qr/^could not serialize, deadlock detected(?:, could not serialize)?$/, "$name: both have happened");
	return;
}

# What protects is the marked line; and the guard refuses a program that lacks it.
sub check_marked_line
{
	my ($self) = @_;
	my $name = $self->{name};
	my $removed = 0;
	my @without = $self->build_copy(
		sub { my ($text) = @_; $removed += $text =~ s{^.*(?:#|//) fencing: .*\n}{}mg; return $text; });
	is($removed, 1, "$name: one line of the program is marked");

	my $late = sub {
		my ($resource, @command) = @_;
		$self->add_report($resource);
		my $worker = $self->granted($resource, 'unaware', 600, @command);
		$self->take_over($resource, 'of the thief');
		$worker->give('of the unaware');
		my $line = $worker->line;
		$worker->status;
		return $line;
	};
	is($late->('forgetful', @without), 'refused TK002', "$name: without that line, the guard refuses the write");
	is($self->report('forgetful'), 'of the thief|0|0', "$name: and the row stands");
	$self->{db}->get("SELECT fencing.unprotect('report')");
	is($late->('unguarded'), 'refused TK001', "$name: with that line, the late write is refused on a table without guard as well");
	is($self->report('unguarded'), 'of the thief|0|0', "$name: and the row stands");
	is($late->('overwritten', @without), 'written', "$name: with neither, it passes");
	is($self->report('overwritten'), 'of the unaware|1|1', "$name: and destroys what the new holder has written");
	$self->{db}->get("SELECT fencing.protect('report', 'fence_token', resource => '{name}', source => 'transaction')");
	return;
}

END
{
	my $status = $?;
	foreach my $process (keys %running)
	{
		kill 'KILL', $process;
		waitpid $process, 0;
	}
	$? = $status;
}

# A process of a program.
package FencingRecipe::Worker;

use PostgreSQL::Test::Utils;
use FencingSession;

# The next line that it prints; '' when none comes.
sub line
{
	my ($self) = @_;
	my $select = IO::Select->new($self->{out});
	until_true(
		sub {
			return 1 if $self->{text} =~ /\n/;
			return 0 if !$select->can_read(0.05);
			return !sysread $self->{out}, $self->{text}, 4096, length $self->{text};
		}, 90);
	return $self->{text} =~ s/^([^\n]*)\n// ? $1 : '';
}

# The line that its work is to read.
sub give
{
	my ($self, $line) = @_;
	print { $self->{in} } "$line\n";
	return;
}

# Wait for its end: the exit status, -1 when it was killed or does not end.
sub status
{
	my ($self) = @_;
	until_true(sub { process_state($self->{process}) eq '' }, 60) or return -1;
	waitpid $self->{process}, 0;
	delete $running{ $self->{process} };
	return $? & 127 ? -1 : $? >> 8;
}

1;
