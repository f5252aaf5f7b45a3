# FencingTest: a server node that finds the extension, for the TAP tests (prove runs them with -I test/perl).
package FencingTest;

use strict;
use warnings;

use Cwd qw(abs_path);
use Exporter 'import';
use FencingSession ();
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();

our @EXPORT = qw(build_conf default_version_conf fencing_conf fencing_node back_again lose_standby own_flush_conf preload_conf released_versions stop_point_conf);

# The configuration lines that point a server at the build under test. Empty without FENCING_CONF: then
# the extension is installed in the server itself.
sub fencing_conf
{
	my $file = $ENV{FENCING_CONF};
	return '' if !defined $file || $file eq '';
	open my $handle, '<', $file or die "could not read $file: $!";
	local $/ = undef;
	my $lines = <$handle>;
	close $handle;
	return $lines;
}

# fencing_node($name, %options): a new node, initialised with the options of init(), not started. A node
# made from its backup needs nothing: the lines are in the copied postgresql.conf.
sub fencing_node
{
	my ($name, %options) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(%options);
	$node->append_conf('postgresql.conf', fencing_conf());
	# A checkpoint, above all that of a promotion, must not take away what a standby on a busy machine has yet to receive.
	$node->append_conf('postgresql.conf', "wal_keep_size = 128MB\n") if $options{allows_streaming};
	return $node;
}

# The library in shared_preload_libraries, as $conf leads to it, by default that of the build under test. Debian's
# extension_destdir does not lead there: its path does.
sub preload_conf
{
	my ($conf) = @_;
	my $library = 'fencing';
	if (($conf // fencing_conf()) =~ /^extension_destdir = '(.*)'$/m)
	{
		my $destination = $1;
		my $config = $ENV{PG_CONFIG} || 'pg_config';
		chomp(my $folder = qx("$config" --pkglibdir));
		$library = "$destination$folder/fencing";
	}
	return "shared_preload_libraries = '$library'\n";
}

# back_again($node): wait until the server lets sessions in, after one of its processes has died. A psql that is sent away
# does not read what it is given, and IPC::Run dies of that.
sub back_again
{
	my ($node) = @_;
	my @ready = ('pg_isready', '-q', '-h', $node->host, '-p', $node->port);
	FencingSession::until_true(sub { system(@ready) == 0 }, 180, 0.05) or die "the server did not come back\n";
	return;
}

# Nothing but a call's own flush brings WAL to disk.
sub own_flush_conf
{
	return <<'CONF';
wal_writer_delay = 10s
wal_writer_flush_after = 1GB
bgwriter_delay = 10s
checkpoint_timeout = 1h
autovacuum = off
CONF
}

# lose_standby($node, $session): true once the commits of that session, a superuser's, wait for a standby that is not there.
# They do only when the checkpointer has heard of it too, which may be later than the session; it looks before a checkpoint.
sub lose_standby
{
	my ($node, $session) = @_;
	$node->append_conf('postgresql.conf', "synchronous_standby_names = 'nobody'\n");
	$node->reload;
	FencingSession::until_true(sub { $session->get('SHOW synchronous_standby_names') eq 'nobody' }, 30) or return 0;
	$session->get('CHECKPOINT');
	return 1;
}

# The build with -DFENCING_STOP_POINTS (src/pg/stop_point.h).
sub stop_point_conf
{
	return build_conf($ENV{PG_CONFIG} || 'pg_config', 'EXTRA_CPPFLAGS=-DFENCING_STOP_POINTS', 'EXTRA_CXXFLAGS=-O1 -g0');
}

# Build the library for that server, with options of make, from a copy of the tree in a folder of its own: the
# configuration lines that point a server at it.
sub build_conf
{
	my ($config, @options) = @_;
	my $directory = abs_path(PostgreSQL::Test::Utils::tempdir());    # the server works elsewhere
	my $root = FencingSession::tree_root();
	# What was built for the release must not come along: make would take it for up to date.
	my @leave_out = map { "--exclude=$_" } qw(*.o *.d *.bc *.so ./fencing--*.sql ./.git ./tmp_check ./log ./results ./test/output);
	mkdir "$directory/tree";
	IPC::Run::run(['tar', '-C', $root, @leave_out, '-cf', '-', 'Makefile', 'fencing.control', 'src'],
		'|', ['tar', '-C', "$directory/tree", '-xf', '-']) or die "could not copy the tree\n";

	# The make that may have started this test must not lend its options.
	local %ENV = %ENV;
	delete @ENV{qw(MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES DESTDIR)};
	my @make = ('make', '-s', '-C', "$directory/tree", "PG_CONFIG=$config", 'with_llvm=no', @options);
	PostgreSQL::Test::Utils::system_or_bail(@make, '-j2', 'all');
	PostgreSQL::Test::Utils::system_or_bail(@make, "DESTDIR=$directory/dest", 'install');

	my ($version, $share, $library) =
	  map { my $value = qx("$config" $_); chomp $value; $value } qw(--version --sharedir --pkglibdir);
	return "extension_destdir = '$directory/dest'\n" if $version =~ /PostgreSQL (\d+)/ && $1 < 18;
	return "extension_control_path = '$directory/dest$share:\$system'\n"
	  . "dynamic_library_path = '$directory/dest$library:\$libdir'\n";
}

# The versions whose install script is in the tree, in order.
sub released_versions
{
	my @scripts = glob FencingSession::tree_root() . '/src/sql/released/fencing--*.sql';
	return sort { $a <=> $b } map { m{fencing--([0-9.]+)\.sql$} ? $1 : () } @scripts;
}

# The same build, in which CREATE EXTENSION installs that version: the new library under released SQL.
sub default_version_conf
{
	my ($version) = @_;
	my $conf = fencing_conf() || build_conf($ENV{PG_CONFIG} || 'pg_config');
	my ($share) = qx("@{[$ENV{PG_CONFIG} || 'pg_config']}" --sharedir) =~ /(.*)/;
	# Where the configuration points: a folder with the whole installation in it, or up to the folder of shared files.
	my ($root) = $conf =~ /'([^':]+?)(?:\Q$share\E)?[':]/ or die "no folder in: $conf";
	my $copy = PostgreSQL::Test::Utils::tempdir();
	PostgreSQL::Test::Utils::system_or_bail('cp', '-a', "$root/.", $copy);
	my $control = "$copy$share/extension/fencing.control";
	PostgreSQL::Test::Utils::system_or_bail('sed', '-i', "s/^default_version = .*/default_version = '$version'/", $control);
	$conf =~ s/\Q$root\E/$copy/g;
	return $conf;
}

1;
