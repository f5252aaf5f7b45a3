# docs/lock-services/etcd_shard.py against three members, whose leader is killed while the first worker sleeps.
#
# Finds: a token that is not the revision of the lock; a late write that passes; a program that would pass without its
# line of fencing. Shows what a restored snapshot does to the revision, and the way out.
use strict;
use warnings;

use FencingServices;
use FencingSession;
use FencingShard;
use PostgreSQL::Test::Utils;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir();
my $etcd = FencingServices::Etcd->new($folder);
$etcd->save("$folder/snapshot");
my $shard = FencingShard->new('etcd_shard');

# The first worker is connected to the member that dies, the second one to one that lives.
my $revision = $etcd->put($etcd->leader);
my @tokens = $shard->late_writes(
	sub { $etcd->leader->{client} }, sub { ($etcd->members)[0]{client} }, sub { $etcd->fail_over });
cmp_ok($tokens[0], '>', $revision, 'the token is a revision: greater than that of the last write');
cmp_ok($tokens[1], '<', $etcd->put($etcd->leader), 'and less than that of the next');

# Who asks for the revision later can be told a successor's.
my $leader = $etcd->leader;
my $make = sub {
	my $lease = FencingServices::Etcd::ask($leader, 'lease/grant', { TTL => 60 })->{ID};
	my $key = { key => FencingServices::Etcd::base64('/locks/late'), value => '', lease => $lease };
	return ($lease, FencingServices::Etcd::ask($leader, 'kv/put', $key)->{header}{revision});
};
my ($lease, $mine) = $make->();
FencingServices::Etcd::ask($leader, 'lease/revoke', { ID => $lease });
my (undef, $successors) = $make->();
my $answer = FencingServices::Etcd::ask($leader, 'kv/range', { key => FencingServices::Etcd::base64('/locks/late') });
is($answer->{kvs}[0]{create_revision}, $successors, 'a get that comes after the end of the lease tells the revision of the next');
cmp_ok($successors, '>', $mine, 'which is greater than one\'s own');

# A snapshot is restored, as after the loss of the majority: the revision goes back.
my $restored = FencingServices::Etcd->restored($folder, "$folder/snapshot");
my $member = ($restored->members)[0];
cmp_ok($restored->put($member), '<', $tokens[1], 'a restored etcd is behind');
my $worker = $shard->worker($member->{client}, 1, 'third', 20);
is(FencingShard::line_of($worker), 'stale', 'the next holder is refused by advance, before it has begun');
is($shard->fence_of(1), $tokens[1], 'the fence has not gone down');
is($shard->state_of(1), 'by second', 'nothing is written');
# The way out: move the issuer above all that it can have given out, before anybody is let in.
my $highest = $shard->node->safe_psql('postgres', q(SELECT max(token) FROM fencing.leases WHERE state = 'external'));
1 while $restored->put($member) < $highest + 100;
$worker = $shard->worker($member->{client}, 1, 'fourth', 20);
is(FencingShard::line_of($worker), 'working on by second',
	'writes to etcd bring its revision above the fences: the next holder works');
is(FencingShard::finish($worker, 'by fourth'), 'done', 'and writes');
cmp_ok($shard->token_of(1), '>', $highest, 'with a greater token');

done_testing();
