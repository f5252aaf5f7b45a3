# docs/recipes/libpq does what its page says.
#
# Finds: a late write that passes; a worker that does not stop when its lease is lost, retries a refusal, or does not
# retry a serialisation failure; a trap of the library that is not as the page tells it.
use strict;
use warnings;

use FencingRecipe;
use FencingSession;
use PostgreSQL::Test::Utils;
use Test::More;

# The program from that source.
sub compile
{
	my ($source) = @_;
	my $program = $source =~ s{.*/([^/]+)\.cpp$}{PostgreSQL::Test::Utils::tempdir() . "/$1"}er;
	chomp(my $include = qx(pg_config --includedir));
	# Without its marked line, a program may have an argument too many.
	system_or_bail('g++', '-std=c++17', '-Wall', '-Wextra', '-Werror', '-Wno-unused-parameter', '-I', $include, $source,
		'-o', $program, '-lpq', '-pthread');
	return $program;
}

my $recipe = FencingRecipe->new('libpq', build => sub { my ($folder) = @_; return compile("$folder/worker.cpp"); });
$recipe->check;
$recipe->check_traps(
	[ compile(tree_root() . '/test/recipes/libpq_traps.cpp') ],
	[ 'batch', 'ok, of the batch', 'statements sent together are one transaction' ],
	[ 'one by one', 'TK002, nothing', 'sent one by one they are not: bind is over' ],
	[ 'at commit', 'ok, then TK001, no transaction, nothing', 'the answer to COMMIT can be the refusal; nothing is written' ],
	[ 'commit of failed', 'TK001, then ROLLBACK', 'who ignores a refusal sees no error of COMMIT' ],
	[ 'pipeline', 'of the pipeline', 'a pipeline up to its sync is one transaction' ]);

done_testing();
