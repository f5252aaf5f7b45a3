# docs/recipes/go does what its page says.
#
# Finds: a late write that passes; a worker that does not stop when its lease is lost, retries a refusal, or does not
# retry a serialisation failure; a trap of database/sql or lib/pq that is not as the page tells it.
use strict;
use warnings;

use FencingRecipe;
use FencingSession;
use PostgreSQL::Test::Utils;
use Test::More;

# Debian's packages of libraries are a GOPATH, without modules.
@ENV{qw(GO111MODULE GOPATH)} = ('off', '/usr/share/gocode');

# The program from that source.
sub compile
{
	my ($source) = @_;
	my $program = $source =~ s{.*/([^/]+)\.go$}{PostgreSQL::Test::Utils::tempdir() . "/$1"}er;
	system_or_bail('go', 'build', '-o', $program, $source);
	return $program;
}

my $sources = join ' ', tree_root() . '/docs/recipes/go', map { tree_root() . "/test/recipes/$_" } 'go_traps.go';
is(qx(gofmt -l $sources), '', 'go: the sources are as gofmt writes them');
my $recipe = FencingRecipe->new('go', build => sub { my ($folder) = @_; return compile("$folder/worker.go"); });
$recipe->check;
$recipe->check_traps(
	[ compile(tree_root() . '/test/recipes/go_traps.go') ],
	[ 'without transaction', 'TK002, nothing', 'bind outside of a Tx is a transaction of its own' ],
	[ 'foreign statement', 'TK002, ok, inside', 'a statement prepared by the DB runs elsewhere, but for tx.Stmt' ],
	[ 'at commit', 'TK001, nothing', 'the error of Commit can be the refusal; nothing is written' ],
	[ 'ignored refusal', 'pq: Could not complete operation in a failed transaction, nothing', 'Commit of a failed Tx is an error' ],
	[ 'cancelled', 'context canceled, nothing', 'a Tx whose context is cancelled is rolled back' ],
	[ 'small pool', 'context deadline exceeded', 'a heartbeat waits for a pool that the work has used up' ]);

done_testing();
