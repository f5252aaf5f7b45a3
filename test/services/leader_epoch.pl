# docs/lock-services/leader_epoch.py against three members of etcd, whose leader is killed while the worker beside it
# sleeps: the term of a Raft leader as the token.
#
# Finds: a token that is not the term; a worker that works beside a follower; a late write that passes; a program that
# would pass without its line of fencing.
use strict;
use warnings;

use FencingServices;
use FencingSession;
use FencingShard;
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

done_testing();
