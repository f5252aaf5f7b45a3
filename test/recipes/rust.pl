# docs/recipes/rust does what its page says.
#
# Finds: a late write that passes; a worker that does not stop when its lease is lost, retries a refusal, or does not
# retry a serialisation failure; a trap of tokio-postgres that is not as the page tells it.
use strict;
use warnings;

use Fcntl qw(LOCK_EX);
use FencingRecipe;
use FencingSession;
use PostgreSQL::Test::Utils;
use Test::More;

# Debian's packages of crates are a registry of their own. All programs share what is compiled of them, with those of this
# test on other servers as well.
my @registry = map { ('--config', $_) } 'source.crates-io.replace-with = "debian"',
  'source.debian.directory = "/usr/share/cargo/registry"';
$ENV{CARGO_TARGET_DIR} //= PostgreSQL::Test::Utils::tempdir();
$ENV{CARGO_PROFILE_DEV_DEBUG} = 0;

# The program of that folder's Cargo.toml.
sub build
{
	my ($folder) = @_;
	my $program = PostgreSQL::Test::Utils::tempdir() . '/worker';
	# To cargo all of them are one package, and it looks at times: one at a time, until it is copied.
	mkdir $ENV{CARGO_TARGET_DIR};
	open my $lock, '>', "$ENV{CARGO_TARGET_DIR}/one_at_a_time" or die "could not write to $ENV{CARGO_TARGET_DIR}: $!";
	flock $lock, LOCK_EX or die "could not lock: $!";
	utime undef, undef, "$folder/worker.rs" or die "could not touch $folder/worker.rs: $!";
	system_or_bail('cargo', 'build', '--quiet', '--offline', @registry, '--manifest-path', "$folder/Cargo.toml");
	system_or_bail('cp', "$ENV{CARGO_TARGET_DIR}/debug/worker", $program);
	return $program;
}

my $recipe_folder = tree_root() . '/docs/recipes/rust';
my $traps = tree_root() . '/test/recipes/rust_traps.rs';
is(system('rustfmt', '--check', '--config-path', $recipe_folder, '--edition', '2021', "$recipe_folder/worker.rs", $traps),
	0, 'rust: the sources are as rustfmt writes them');
my $recipe = FencingRecipe->new('rust', build => \&build);
$recipe->check;

my $folder = PostgreSQL::Test::Utils::tempdir();
system_or_bail('cp', "$recipe_folder/Cargo.toml", $folder);
system_or_bail('cp', $traps, "$folder/worker.rs");
$recipe->check_traps(
	[ build($folder) ],
	[ 'without transaction', 'TK002, nothing', 'bind outside of a transaction is one of its own' ],
	[ 'at commit', 'TK001, nothing', 'the error of commit() can be the refusal; nothing is written' ],
	[ 'ignored refusal', 'TK001, 25P02, ok, nothing', 'commit() of a failed transaction is Ok, and commits nothing' ],
	[ 'prepared', 'ok, TK001', 'a prepared bind asks anew each time' ],
	[ 'dropped', 'nothing', 'a transaction that is dropped is rolled back' ]);

done_testing();
