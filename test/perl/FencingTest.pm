# FencingTest: a server node that finds the extension, for the TAP tests (prove runs them with -I test/perl).
package FencingTest;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;

our @EXPORT = qw(fencing_conf fencing_node);

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
	return $node;
}

1;
