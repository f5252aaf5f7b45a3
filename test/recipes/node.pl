# docs/recipes/node does what its page says.
#
# Finds: a late write that passes; a worker that does not stop when its lease is lost, retries a refusal, or does not
# retry a serialisation failure; a trap of node-postgres that is not as the page tells it.
use strict;
use warnings;

use FencingNode;
use FencingRecipe;
use Test::More;

my $folder;
my $recipe = FencingRecipe->new('node', build => sub { ($folder) = @_; return node_program($folder, 'worker.js'); });
$recipe->check;
$recipe->check_hanging_heartbeat;

my @program = node_program($folder, 'node_traps.js');
my $only_local = 'The setting fencing.token counts only in the transaction that sets it:'
  . ' BEGIN; SET LOCAL fencing.token = ...; the write; COMMIT.';
$recipe->check_traps(
	\@program,
	[ 'BEGIN on the pool', 'another part of the program is bound to 1, the write TK002, nothing',
		'a transaction by pool.query() is spread over clients: its write is refused, and somebody else is bound' ],
	[ 'table without guard', 'the write ok, COMMIT TK001, lines 1',
		'on a table without guard such a write passes, stale as it is' ],
	[ 'released too soon', 'the next one is bound to released too soon',
		'a client that goes back in a transaction takes it along' ],
	[ 'bind alone', 'TK002, nothing', 'bind by pool.query() is a transaction of its own' ],
	[ 'SET on the pool', "TK002 $only_local", 'a SET without LOCAL counts for nobody' ],
	[ 'one statement', 'ok, x', 'one statement that binds and writes will do with pool.query()' ],
	[ 'set_config', 'ok, x', 'set_config() takes the token as a parameter, in the transaction' ],
	[ 'idle', 'event 57P01, then ok',
		'an idle connection that is cut is an event of the pool, which goes on with another' ],
	[ 'error', 'true TK001 ERROR stale fencing token for resource "error"',
		'a refusal is a DatabaseError with the SQLSTATE as its code' ],
	[ 'swallowed', 'TK001, COMMIT answers ROLLBACK',
		'COMMIT after a refusal that was caught rolls back, and only its command says so' ],
	[ 'commit', 'TK001, nothing', 'COMMIT can be refused; nothing is written then' ],
	[ 'prepared', '1 prepared, TK001', 'a bind that is prepared asks anew each time' ],
	[ 'busy loop', 'no heartbeats, renew null', 'work that does not give back the event loop starves its heartbeat' ]);

# An odd one above 2^53 is no number of JavaScript.
$recipe->{db}->get('SELECT fencing.fast_forward((1::bigint << 53) + 2)');
$recipe->check_traps(
	\@program,
	[ 'large token', 'string ok, Number() TK003, parser for int8 false, token::text true',
		'a token of a late epoch is kept as a string' ]);

$recipe->{db}->get('SELECT fencing.fast_forward((1::bigint << 53) + 10)');
my $worker = $recipe->granted($recipe->add_report('late epoch'), 'w1', 60);
$worker->give('x');
is($worker->line, 'written', 'node: a worker with such a token writes');
is($worker->status, 0, 'node: and ends well');

done_testing();
