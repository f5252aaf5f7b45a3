# docs/recipes/psycopg does what its page says.
#
# Finds: a late write that passes; a worker that does not stop when its lease is lost, retries a refusal, or does not
# retry a serialisation failure; a trap of the driver that is not as the page tells it.
use strict;
use warnings;

use FencingRecipe;
use FencingSession;
use Test::More;

my $recipe = FencingRecipe->new('psycopg', build => sub { my ($folder) = @_; return ('python3', "$folder/worker.py"); });
$recipe->check;
$recipe->check_traps(
	[ 'python3', tree_root() . '/test/recipes/psycopg_traps.py' ],
	[ 'executemany', 'ok, second', 'executemany in a bound transaction' ],
	[ 'stale executemany', 'TK001, of the successor', 'the same with a stale token is refused' ],
	[ 'lone bind', 'TK002, nothing', 'with autocommit, bind is a transaction of its own: the write carries no token' ],
	[ 'pipeline', 'TK001, of the successor, seen later', 'in a pipeline, the refusal of bind comes out later' ],
	[ 'prepared', '2 prepared, TK001, 6', 'a prepared bind asks anew each time' ],
	[ 'open grant', 'seen 0, free for another 0, seen after commit 1', 'without autocommit, a grant is open until commit()' ],
	[ 'grant in block', '25001, nothing', 'and refused at REPEATABLE READ' ]);

done_testing();
