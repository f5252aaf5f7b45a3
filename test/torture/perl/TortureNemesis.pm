# TortureNemesis: what goes wrong, by chance from a seed, and a history of it. A line for each fault before it is
# done, and one after it; of a fault that loses acknowledged commits, `safe` is the moment up to which none is lost.
package TortureNemesis;

use strict;
use warnings;

use FencingSession qw(crash_server process_state until_true);
use IPC::Run ();
use List::Util qw(shuffle sum);
use Time::HiRes qw(sleep time);
use TortureServers ();

# How often, one to another.
my %usual = (
	stop => 30,      # SIGSTOP of a worker for a while
	kill => 12,      # kill -9 of a worker
	terminate => 10, # pg_terminate_backend
	cut => 10,       # connections are reset
	commit => 20,    # a commit is passed on, and its answer is not
	half => 10,      # a commit is not passed on
	backend => 3,    # kill -9 of a backend: the server restarts all of them
	crash => 3,      # kill -9 of the whole server
	promote => 3,    # of a standby that lacks the last WAL
	backup => 2,     # for a later restore
	restore => 1,    # of a backup, into a new server, which takes over
	full => 3,       # no connection is left
	clock => 6,      # the server's clock is stepped
);

sub usual_weights { return %usual; }

# new($servers, $workers, $path of the history, $seed, weights => {...}, pause => seconds)
sub new
{
	my ($class, $servers, $workers, $path, $seed, %options) = @_;
	srand $seed;
	open my $history, '>>', $path or die "$path: $!";
	$history->autoflush(1);
	my $self = bless {
		servers => $servers, workers => $workers, history => $history, path => $path, requests => 0,
		weights => { %usual, %{ $options{weights} || {} } }, pause => $options{pause} || 1, stopped => {} }, $class;
	# Each of them once, then by weight. A restore needs a backup.
	my @first = grep { $self->{weights}{$_} > 0 && $_ !~ /^(backup|restore|clock)$/ } sort keys %usual;
	@first = shuffle(@first);
	unshift @first, 'backup' if $self->{weights}{backup} > 0;
	unshift @first, 'clock', 'clock' if $self->{weights}{clock} > 0;
	push @first, 'restore' if $self->{weights}{restore} > 0;
	$self->{first} = \@first;
	return $self;
}

sub path { return $_[0]->{path}; }

sub note
{
	my ($self, $text) = @_;
	my $history = $self->{history};
	print $history TortureServers::now_ns() . " nemesis $self->{requests} $text\n";
	return;
}

sub choose
{
	my ($self) = @_;
	return shift @{ $self->{first} } if @{ $self->{first} };
	my $left = rand sum(values %{ $self->{weights} });
	foreach my $kind (sort keys %{ $self->{weights} })
	{
		return $kind if ($left -= $self->{weights}{$kind}) < 0;
	}
	return 'stop';
}

sub someone { my ($self) = @_; return 1 + int rand $self->{workers}{count}; }

# One fault, and a pause.
sub step
{
	my ($self) = @_;
	my $kind = $self->choose;
	my $method = "fault_$kind";
	$self->$method if $kind ne 'restore' || $self->{servers}->has_backup;
	my $until = time + $self->{pause} * (0.2 + rand 1.6);
	do
	{
		$self->wake(time);
		sleep 0.05;
	} while (time < $until);
	return;
}

# Continue the workers whose time has come; all of them without one.
sub wake
{
	my ($self, $now) = @_;
	foreach my $id (keys %{ $self->{stopped} })
	{
		next if defined $now && $self->{stopped}{$id} > $now;
		$self->{workers}->signal($id, 'CONT');
		delete $self->{stopped}{$id};
	}
	return;
}

# A fault that is over when the function returns.
sub simple
{
	my ($self, $kind, $function) = @_;
	$self->{requests}++;
	$self->note("invoke fault kind=$kind");
	my $more = $function->();
	$self->note('ok' . (defined $more ? " $more" : ''));
	return;
}

sub fault_stop
{
	my ($self) = @_;
	my $id = $self->someone;
	$self->simple('stop', sub {
		$self->{workers}->signal($id, 'STOP');
		$self->{stopped}{$id} = time + 0.05 + rand 2;
		return "worker=$id";
	});
	return;
}

sub fault_kill
{
	my ($self) = @_;
	my $id = $self->someone;
	delete $self->{stopped}{$id};
	$self->simple('kill', sub { $self->{workers}->replace($id); return "worker=$id" });
	return;
}

# The pid of a backend that serves a worker; it may be gone by now.
sub some_backend
{
	my ($self) = @_;
	my ($status, $pid) = $self->{servers}->primary->psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE application_name = 'torture' ORDER BY state <> 'active', random() LIMIT 1");
	return $status == 0 && $pid =~ /^(\d+)$/ ? $1 : undef;
}

sub fault_terminate
{
	my ($self) = @_;
	my $pid = $self->some_backend or return;
	$self->simple('terminate', sub {
		$self->{servers}->primary->psql('postgres', "SELECT pg_terminate_backend($pid)");
		return "pid=$pid";
	});
	return;
}

sub fault_backend
{
	my ($self) = @_;
	my $node = $self->{servers}->primary;
	my $pid = $self->some_backend or return;
	# Only a process of this server, whatever has happened since.
	return if !grep { $_ == $pid } FencingSession::server_processes($node);
	$self->simple('backend', sub {
		kill 'KILL', $pid;
		$self->{servers}->wait_for($node);
		return "pid=$pid";
	});
	return;
}

sub fault_crash
{
	my ($self) = @_;
	my $node = $self->{servers}->primary;
	$self->simple('crash', sub {
		crash_server($node);
		$self->{servers}->start($node);
		return;
	});
	return;
}

sub fault_cut
{
	my ($self) = @_;
	$self->simple('cut', sub { $self->{servers}->order('cut ' . (1 + int rand 4)); return });
	return;
}

# The next commits, whosever they are, within a second.
sub cut_commits
{
	my ($self, $kind) = @_;
	my $servers = $self->{servers};
	$self->simple($kind, sub {
		my $before = $servers->order("$kind 2");
		until_true(sub { $self->wake(time); $servers->order('count') >= $before + 2 }, 2, 0.02);
		$servers->order("$kind 0");
		return 'cut=' . ($servers->order('count') - $before);
	});
	return;
}

sub fault_commit { my ($self) = @_; $self->cut_commits('commit'); return; }
sub fault_half { my ($self) = @_; $self->cut_commits('half'); return; }

sub fault_promote
{
	my ($self) = @_;
	$self->{requests}++;
	# The moment up to which nothing is lost is known only once it has begun, so the line is noted with it.
	my $begun = TortureServers::now_ns();
	$self->note("invoke fault kind=promote safe=$begun");
	$self->{servers}->promote(sub { sleep rand 1 }, sub { $self->note('ok') });
	return;
}

sub fault_restore
{
	my ($self) = @_;
	my $safe = $self->{servers}{backups}[0]{safe};
	$self->{requests}++;
	$self->note("invoke fault kind=restore safe=$safe");
	$self->{servers}->restore(sub { $self->note('ok') });
	return;
}

sub fault_backup
{
	my ($self) = @_;
	$self->simple('backup', sub { $self->{servers}->take_backup; return });
	return;
}

sub fault_full
{
	my ($self) = @_;
	$self->simple('full', sub {
		my $sockets = $self->{servers}->exhaust;
		$self->{servers}->order('cut 1000');    # whoever is cut now finds no way back
		sleep 0.3 + rand 1;
		$self->{servers}->relieve($sockets);
		return 'sockets=' . scalar @$sockets;
	});
	return;
}

sub fault_clock
{
	my ($self) = @_;
	return if !$self->{servers}->has_clock;
	# Forwards, then backwards, from our own time.
	my $seconds = (600 + int rand 3000) * ($self->{clock_steps}++ % 2 ? -1 : 1);
	$self->simple('clock', sub {
		my $servers = $self->{servers};
		$servers->step_clock($seconds);
		# Where the library does not reach the server, this would be no fault at all.
		until_true(sub { abs($servers->clock_offset - $seconds) < 60 }, 30, 0.1)
		  or die "the server's clock does not follow\n";
		return "seconds=$seconds";
	});
	return;
}

1;
