# docs/recipes/sequelize does what its page says.
#
# Finds: a late write that passes; a worker that does not stop when its lease is lost, retries a refusal, or does not
# retry a serialisation failure; a trap of Sequelize that is not as the page tells it.
use strict;
use warnings;

use FencingNode;
use FencingRecipe;
use FencingSession;
use PostgreSQL::Test::Utils;
use Test::More;

my $folder;
my $recipe = FencingRecipe->new('sequelize',
	build => sub { ($folder) = @_; return node_program($folder, 'worker.js'); });
$recipe->check;
$recipe->check_hanging_heartbeat;

# Here the token column counts, too.
$recipe->{db}->get(<<'SQL');
CREATE TABLE entry (name text, line int, amount int, fence_token bigint, PRIMARY KEY (name, line));
SELECT fencing.protect('entry', 'fence_token', resource => '{name}');
GRANT SELECT, INSERT, UPDATE, DELETE ON entry TO worker;
SQL
my @program = node_program($folder, 'sequelize_traps.js');
$recipe->check_traps(
	\@program,
	[ 'save', 'TK002, names the token false, marked as changed ok, bound ok',
		'save() leaves out a token that has not changed: marked as changed, or in a bound transaction, it passes' ],
	[ 'old instance', 'TK001, 2', 'an instance read under an earlier lease cannot be saved' ],
	[ 'new token in an old instance', 'ok, 2',
		'... unless it is given the new token: then it writes what it has computed from old values' ],
	[ 'destroy', 'TK002, bound ok, left 0', 'destroy() names no token either' ],
	[ 'increment', 'TK002, bound ok, 2', 'increment() names no token: only in a bound transaction' ],
	[ 'bulkCreate', 'TK002, token named ok, bound ok, stale TK001, sum 10',
		'bulkCreate() with updateOnDuplicate needs the token in its list' ],
	[ 'option retry', 'TK001 after 1, matching everything 25P02 after 3',
		'a retry that matches every error repeats the statement, and hides the refusal' ],
	[ 'transaction not passed', 'TK002, nothing', 'a write without { transaction } is not in the transaction' ],
	[ 'CLS', 'ok, x', 'with CLS it is' ],
	[ 'commit', 'SequelizeDatabaseError TK001, nothing', 'COMMIT can be refused; nothing is written then' ]);

# An odd one above 2^53 is no number of JavaScript.
$recipe->{db}->get('SELECT fencing.fast_forward((1::bigint << 53) + 2)');
$recipe->check_traps(\@program,
	[ 'token', 'string true, Number() false', 'a token of a late epoch is kept as a string' ]);

$recipe->{db}->get('SELECT fencing.fast_forward((1::bigint << 53) + 10)');
my $worker = $recipe->granted($recipe->add_report('late epoch'), 'w1', 60);
$worker->give('x');
is($worker->line, 'written', 'sequelize: a worker with such a token writes');
is($worker->status, 0, 'sequelize: and ends well');

# What the page shows of CLS is what has been tried.
my ($shown) = slurp_file(tree_root() . '/docs/recipes/sequelize.md') =~ /```js\n(.*?)```/s;
my ($program, $example) = map { s/^ +//gmr } slurp_file("$folder/sequelize_traps.js"), $shown;
like($program, qr/\Q$example\E/, 'sequelize: the page shows it as it is');

done_testing();
