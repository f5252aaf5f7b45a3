# docs/recipes/sqlalchemy does what its page says.
#
# Finds: a late write that passes; a worker that does not stop when its lease is lost, retries a refusal, or does not
# retry a serialisation failure; a trap of the ORM that is not as the page tells it.
use strict;
use warnings;

use FencingRecipe;
use FencingSession;
use Test::More;

my $recipe = FencingRecipe->new('sqlalchemy', build => sub { my ($folder) = @_; return ('python3', "$folder/worker.py"); });
$recipe->check;

my @traps = ('python3', tree_root() . '/test/recipes/sqlalchemy_traps.py', tree_root() . '/docs/recipes/sqlalchemy');
$recipe->check_traps(
	\@traps,
	[ 'bulk', 'ok, last', 'the hook of the session reaches a batch' ],
	[ 'stale bulk', 'TK001, of the successor', 'a stale batch is refused' ],
	[ 'core', 'ok, of core', 'and an UPDATE without objects' ],
	[ 'stale core', 'TK001, of the successor', 'a stale one is refused' ],
	[ 'two transactions', 'TK001, second', 'each transaction of a session is bound, a savepoint is no other one' ],
	[ 'without session', 'TK002, nothing', 'the hook does not reach what goes around the session' ],
	[ 'autocommit', 'TK002, nothing', 'with autocommit, the hook binds a transaction of its own' ],
	[ 'column', 'TK002, nothing', 'with source => transaction, the column says nothing' ]);

# The other way: the column, in a table whose guard knows no resource.
$recipe->{db}->get("SELECT fencing.protect('report', 'fence_token')");
$recipe->check_traps(
	\@traps,
	[ 'same token', 'ok, first, then TK002, first', 'a token that is in the row already is no change: it is not written' ],
	[ 'flagged token', 'ok, first, then ok, second', 'unless it is flagged as one' ],
	[ 'hook', 'ok, of the hook', 'before_update can do that' ],
	[ 'stale hook', 'TK001, of the successor', 'and a stale token is refused' ],
	[ 'hook and bulk', 'TK002, nothing', 'but it is not called for a batch' ],
	[ 'hook and core', 'TK002, nothing', 'nor for an UPDATE without objects' ]);

done_testing();
