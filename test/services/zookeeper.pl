# docs/lock-services/zookeeper_shard.py against an ensemble of three servers, whose leader is killed while the first
# worker sleeps.
#
# Finds: a token that is not the czxid; a late write that passes; a program that would pass without its line of fencing.
# Shows why the number in the name of a node is no token.
use strict;
use warnings;

use FencingServices;
use FencingSession;
use FencingShard;
use PostgreSQL::Test::Utils;
use Test::More;

my $zookeeper = FencingServices::ZooKeeper->new(PostgreSQL::Test::Utils::tempdir());
my $shard = FencingShard->new('zookeeper_shard');

my $hosts = sub { return $zookeeper->hosts };
my @tokens = $shard->late_writes($hosts, $hosts, sub { $zookeeper->fail_over });
cmp_ok($tokens[1] >> 32, '>', $tokens[0] >> 32, 'the high half of the token is the epoch of the leader: it has grown');

# nodes($path, $count): so many sequential nodes are made under the path and deleted again: their numbers and czxids.
sub nodes
{
	my ($path, $count) = @_;
	my $program = tree_root() . '/test/services/make_nodes.py';
	my $output = run_quietly('/usr/bin/python3', $program, $zookeeper->hosts, $path, $count);
	return map { [split / /] } split /\n/, $output;
}

# The number goes back when the parent is deleted and made again, by hand.
my @nodes = nodes('/numbers', 3);
is("@{[map { $_->[0] } @nodes]}", '0 1 2', 'the number of a node counts under its parent');
$zookeeper->shell('delete', '/numbers');
my @again = nodes('/numbers', 1);
is($again[0][0], 0, 'with the parent made again it is back at 0');
cmp_ok($again[0][1], '>', $nodes[2][1], 'and the czxid goes on');

# By itself: a container, in which the locks of Curator are, is deleted when it is empty.
$zookeeper->shell('create', '-c', '/container');
@nodes = nodes('/container', 3);
is($nodes[2][0], 2, 'a container counts as well');
my $deleted = sub { $zookeeper->shell('ls', '/') !~ /\bcontainer\b/ };
ok(until_true($deleted, 60), 'and is deleted by the servers once it is empty');
@again = nodes('/container', 1);
is($again[0][0], 0, 'with the next lock the number is back at 0');
cmp_ok($again[0][1], '>', $nodes[2][1], 'and the czxid goes on');

# What becomes of that as a token.
my $node = $shard->node;
$node->safe_psql('postgres', q(SELECT fencing.advance('numbered', 2)));
my (undef, undef, $errors) =
  $node->psql('postgres', "\\set VERBOSITY sqlstate\nSELECT fencing.advance('numbered', 1)");
like($errors, qr/TK001/, 'a holder with the lower number is refused');
is($node->safe_psql('postgres', q(SELECT fencing.advance('numbered', 2))), '2',
	'and the third one has the number of a former holder');

# The program does not mind.
my $before = $shard->token_of(1);
$zookeeper->shell('deleteall', '/locks');
my $worker = $shard->worker($zookeeper->hosts, 1, 'third', 20);
is(FencingShard::line_of($worker), 'working on by second', 'the locks are deleted, and a worker takes that of shard 1');
is(FencingShard::finish($worker, 'by third'), 'done', 'and writes');
cmp_ok($shard->token_of(1), '>', $before, 'with a greater token');

done_testing();
