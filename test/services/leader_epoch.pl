# docs/lock-services/leader_epoch.py against three members of etcd, whose leader is killed while the worker beside it
# sleeps: the term of a Raft leader as the token.
#
# Finds: a token that is not the term; a worker that works beside a follower; a late write that passes; a program that
# would pass without its line of fencing; a member that claims the term of its predecessor while it is elected.
use strict;
use warnings;

use FencingServices;
use FencingSession;
use FencingShard;
use IPC::Open3 qw(open3);
use PostgreSQL::Test::Utils;
use Test::More;

my $etcd = FencingServices::Etcd->new(PostgreSQL::Test::Utils::tempdir());
my $shard = FencingShard->new('leader_epoch');
my $leads = sub { return $etcd->leader->{client} };

my ($follower) = grep { !$etcd->leads($_) } $etcd->members;
my $idle = $shard->worker($follower->{client}, 5, 'idle', 20);
is(FencingShard::line_of($idle), 'follower', 'beside a follower nobody works');
is($shard->fence_of(5), '', 'or has advanced a fence');

my $term = $etcd->term($etcd->leader);
my @tokens = $shard->late_writes($leads, $leads, sub { $etcd->fail_over });
is($tokens[0], $term, 'the token is the term of the leader');
is($tokens[1], $etcd->term($etcd->leader), 'and the next one that of its successor');

# Elections, while every member is asked all the time: none claims a term that another has led in.
$etcd->bring_back;
my @command = ('/usr/bin/python3', tree_root() . '/test/services/claim_terms.py', tree_root() . '/docs/lock-services');
my $process = open3(my $in, my $out, '>&STDERR', @command, map { $_->{client} } $etcd->members);
my $asker = { out => $out, text => '' };
my %leaders;
foreach my $election (0 .. 3)
{
	$etcd->fail_over if $election;
	my $leader = $etcd->leader;
	my $term_now = $etcd->term($leader);
	while (!$leaders{$term_now})
	{
		my ($member, $claimed) = split / /, FencingShard::line_of($asker) or last;
		$leaders{$claimed}{$member} = 1;
	}
	ok($leaders{$term_now}{ $leader->{client} }, "election $election: the leader claims the new term");
	$etcd->bring_back;
}
close $in;
while (my $line = FencingShard::line_of($asker))
{
	my ($member, $claimed) = split / /, $line;
	$leaders{$claimed}{$member} = 1;
}
waitpid $process, 0;
my @twice = grep { keys %{ $leaders{$_} } > 1 } keys %leaders;
is("@twice", '', 'each term is claimed by one member');

done_testing();
