# FencingServices: the lock services of others, as real servers on loopback, each in a folder of its own: ensembles of
# ZooKeeper and etcd, a Redis and its replica. Everything that it starts ends with it.
package FencingServices;

use strict;
use warnings;

use Exporter 'import';
use FencingSession;
use HTTP::Tiny;
use IO::Socket::INET;
use JSON::PP;
use MIME::Base64;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(run_quietly);

my @running;
my $http = HTTP::Tiny->new(timeout => 5);

# start($name, command...): a server, with its output in a log of that name.
sub start
{
	my ($name, @command) = @_;
	my $process = fork;
	die "could not fork: $!" if !defined $process;
	if ($process == 0)
	{
		open STDIN, '<', '/dev/null';
		open STDOUT, '>>', "$PostgreSQL::Test::Utils::log_path/$name.log";
		open STDERR, '>&', \*STDOUT;
		exec @command or POSIX::_exit(127);
	}
	push @running, $process;
	return $process;
}

# kill -9, and gone.
sub end_process
{
	my ($process) = @_;
	kill 'KILL', $process;
	waitpid $process, 0;
	@running = grep { $_ != $process } @running;
	return;
}

# An address of the loopback that nobody listens at.
sub address { return '127.0.0.1:' . PostgreSQL::Test::Cluster::get_free_port(); }

sub write_file
{
	my ($path, $text) = @_;
	open my $file, '>', $path or die "could not write $path: $!";
	print $file $text;
	close $file;
	return;
}

# A program that has to succeed; what it prints.
sub run_quietly
{
	my (@command) = @_;
	my ($output, $errors) = ('', '');
	IPC::Run::run(\@command, '<', \undef, '>', \$output, '2>', \$errors) or die "@command failed: $output$errors\n";
	chomp $output;
	return $output;
}

# ---- ensembles: { members => [ { client, process, ... } ] }

sub members { return grep { $_->{process} } @{ $_[0]->{members} }; }

# The addresses of all members that run, as clients want them.
sub hosts { return join ',', map { $_->{client} } $_[0]->members; }

# The member that leads, once there is one.
sub leader
{
	my ($self) = @_;
	my $leader;
	until_true(sub { ($leader) = grep { $self->leads($_) } $self->members; return defined $leader; }, 60, 0.05)
	  or die "no member leads\n";
	return $leader;
}

# kill -9 of the leader; the one that the others have elected.
sub fail_over
{
	my ($self) = @_;
	my $old = $self->leader;
	end_process(delete $old->{process});
	return $self->leader;
}

# ---- ZooKeeper
package FencingServices::ZooKeeper;
our @ISA = ('FencingServices');

use FencingSession;
use PostgreSQL::Test::Utils;

# A small server, which empties containers soon.
my @java = qw(java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dznode.container.checkIntervalMs=200
  -cp /usr/share/java/zookeeper.jar);

# Three servers. They sync their log before they answer; that is the default.
sub new
{
	my ($class, $folder) = @_;
	my $self = bless { members => [ map { { id => $_, client => FencingServices::address() } } 1 .. 3 ] }, $class;
	# The second port is that for elections.
	my $port = sub { return FencingServices::address() =~ s/.*(?=:)//r };
	my $servers = join '',
	  map { "server.$_->{id}=" . FencingServices::address() . $port->() . "\n" } @{ $self->{members} };
	foreach my $member (@{ $self->{members} })
	{
		my $data = "$folder/zookeeper-$member->{id}";
		mkdir $data;
		FencingServices::write_file("$data/myid", "$member->{id}\n");
		my ($port) = $member->{client} =~ /:(\d+)/;
		FencingServices::write_file("$data/zoo.cfg", <<"CONF" . $servers);
tickTime=500
initLimit=40
syncLimit=20
dataDir=$data
clientPort=$port
clientPortAddress=127.0.0.1
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr
CONF
		$member->{process} = FencingServices::start("zookeeper-$member->{id}", @java,
			'org.apache.zookeeper.server.quorum.QuorumPeerMain', "$data/zoo.cfg");
	}
	$self->leader;
	return $self;
}

sub leads
{
	my ($self, $member) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => $member->{client}, Timeout => 5) or return 0;
	print $socket 'srvr';
	my $answer = join '', <$socket>;
	return $answer =~ /^Mode: leader$/m;
}

# A command of ZooKeeper's own shell.
sub shell
{
	my ($self, @command) = @_;
	my $server = ($self->members)[0]{client};
	return FencingServices::run_quietly(@java, 'org.apache.zookeeper.ZooKeeperMain', '-server', $server, @command);
}

# ---- etcd
package FencingServices::Etcd;
our @ISA = ('FencingServices');

use FencingSession;
use JSON::PP;

sub member
{
	my ($name) = @_;
	return { name => $name, client => FencingServices::address(), peer => FencingServices::address() };
}

# Three members.
sub new
{
	my ($class, $folder) = @_;
	my @members = map { member("etcd-$_") } 1 .. 3;
	my $self = bless { members => \@members }, $class;
	my $cluster = join ',', map { "$_->{name}=http://$_->{peer}" } @members;
	start_member($_, "$folder/$_->{name}", $cluster) foreach @members;
	$self->leader;
	return $self;
}

sub start_member
{
	my ($member, $data, $cluster) = @_;
	@$member{qw(data cluster)} = ($data, $cluster);
	$member->{process} = FencingServices::start($member->{name}, 'etcd', '--name', $member->{name}, '--data-dir', $data,
		'--listen-client-urls', "http://$member->{client}", '--advertise-client-urls', "http://$member->{client}",
		'--listen-peer-urls', "http://$member->{peer}", '--initial-advertise-peer-urls', "http://$member->{peer}",
		'--initial-cluster', $cluster,
		# A busy machine is no reason for an election.
		'--heartbeat-interval', '200', '--election-timeout', '2000');
	return;
}

# Who was killed comes back and follows.
sub bring_back
{
	my ($self) = @_;
	foreach my $member (grep { !$_->{process} } @{ $self->{members} })
	{
		start_member($member, @$member{qw(data cluster)});
		until_true(sub { ((ask($member, 'maintenance/status', {}) || {})->{leader} || '0') ne '0' }, 60, 0.05)
		  or die "$member->{name} does not come back\n";
	}
	return;
}

# restored($folder, $snapshot): one member that begins with a snapshot.
sub restored
{
	my ($class, $folder, $snapshot) = @_;
	my $member = member('restored');
	my $self = bless { members => [$member] }, $class;
	my $cluster = "restored=http://$member->{peer}";
	FencingServices::run_quietly('env', 'ETCDCTL_API=3', 'etcdctl', 'snapshot', 'restore', $snapshot,
		'--name', 'restored', '--data-dir', "$folder/restored",
		'--initial-cluster', $cluster, '--initial-advertise-peer-urls', "http://$member->{peer}");
	start_member($member, "$folder/restored", $cluster);
	$self->leader;
	return $self;
}

# One request to a member, by the JSON gateway; nothing when it does not answer.
sub ask
{
	my ($member, $path, $content) = @_;
	my $answer = $http->post("http://$member->{client}/v3/$path", { content => encode_json($content) });
	return $answer->{success} ? decode_json($answer->{content}) : undef;
}

sub base64 { return MIME::Base64::encode_base64($_[0], ''); }

# Leads, and has a majority that it can write with.
sub leads
{
	my ($self, $member) = @_;
	my $status = ask($member, 'maintenance/status', {}) or return 0;
	return ($status->{leader} || '') eq $status->{header}{member_id} && defined $self->put($member);
}

sub put
{
	my ($self, $member) = @_;
	my $answer = ask($member, 'kv/put', { key => base64('/probe'), value => '' }) or return;
	return $answer->{header}{revision};
}

sub term { return ask($_[1], 'maintenance/status', {})->{raftTerm}; }

sub save
{
	my ($self, $snapshot) = @_;
	my $endpoint = $self->leader->{client};
	FencingServices::run_quietly('env', 'ETCDCTL_API=3', 'etcdctl', '--endpoints', $endpoint, 'snapshot', 'save', $snapshot);
	return;
}

# ---- Redis
package FencingServices::Redis;
our @ISA = ('FencingServices');

use FencingSession;

# new($folder, $name, options...): one server, with options of redis-server.
sub new
{
	my ($class, $folder, $name, @options) = @_;
	my $self = bless {
		name => $name, data => "$folder/$name", options => \@options, client => FencingServices::address() }, $class;
	mkdir $self->{data};
	$self->start;
	return $self;
}

sub hosts { return $_[0]->{client}; }

sub start
{
	my ($self) = @_;
	my ($port) = $self->{client} =~ /:(\d+)/;
	$self->{process} = FencingServices::start($self->{name}, 'redis-server', '--bind', '127.0.0.1', '--port', $port,
		'--dir', $self->{data}, @{ $self->{options} });
	until_true(sub { (eval { $self->ask('PING') } || '') eq 'PONG' }, 60, 0.05) or die "Redis does not answer\n";
	return;
}

# kill -9, and up again.
sub crash
{
	my ($self) = @_;
	FencingServices::end_process($self->{process});
	$self->start;
	return;
}

sub ask
{
	my ($self, @command) = @_;
	return FencingServices::run_quietly('redis-cli', '-p', $self->{client} =~ s/.*://r, @command);
}

END
{
	my $status = $?;
	kill 'CONT', @running;
	kill 'KILL', @running;
	waitpid $_, 0 foreach @running;
	$? = $status;
}

1;
