# docs/recipes/django does what its page says.
#
# Finds: a late write that passes; a worker that does not stop when its lease is lost, retries a refusal, or does not
# retry a serialisation failure; a trap of the ORM that is not as the page tells it.
use strict;
use warnings;

use FencingRecipe;
use FencingSession;
use Test::More;

my $recipe = FencingRecipe->new('django', build => sub { my ($folder) = @_; return ('python3', "$folder/worker.py"); });
$recipe->check;

my @traps = ('python3', tree_root() . '/test/recipes/django_traps.py', tree_root() . '/docs/recipes/django');
$recipe->check_traps(
	\@traps,
	[ 'save', 'ok, saved', 'save() in a bound block' ],
	[ 'stale save', 'TK001, of the successor', 'a stale one is refused' ],
	[ 'update_fields', 'ok, saved', 'update_fields need not name the column' ],
	[ 'bulk_update', 'ok, in bulk', 'bulk_update in a bound block' ],
	[ 'stale bulk_update', 'TK001, of the successor', 'a stale one is refused' ],
	[ 'setting', 'ok, saved', 'fencing.token in a block does as well' ],
	[ 'setting alone', 'TK002, nothing', 'outside of a block it is set for nothing' ],
	[ 'bind alone', 'TK002, nothing', 'bind too' ],
	[ 'bulk_update alone', 'TK002, nothing', 'the block of bulk_update itself comes too late' ],
	[ 'read late', 'TK002, of the successor', 'the token that save() writes back with all other columns says nothing' ],
	[ 'caught inside', '25P02, nothing', 'a refusal that is caught inside of atomic() ends the block all the same' ],
	[ 'nested', 'no SQLSTATE, nothing', 'fenced() refuses to be a savepoint in the block of somebody else' ],
	[ 'grant in request', '25001', 'with ATOMIC_REQUESTS, a view cannot acquire at REPEATABLE READ' ],
	[ 'non-atomic request', 'seen', 'one outside of it can' ]);

# Without source => transaction.
$recipe->{db}->get("SELECT fencing.protect('report', 'fence_token', resource => '{name}')");
$recipe->check_traps(
	\@traps,
	[ 'read late, column', 'ok, of the stale one', 'without it, save() presents the token that it has read' ],
	[ 'update_fields, column', 'TK002, nothing', 'and update_fields none' ]);

done_testing();
