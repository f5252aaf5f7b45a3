# FencingHistory: standbys, failovers that lose WAL, and the list of every token that anybody was given, for the tests
# of a database that lives on several servers.
package FencingHistory;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(caught_up cut_off draw epoch_of fail_over is_over record_of standby_of);

# ---- tokens seen, over all the lives of the database

# new(): nothing seen yet.
sub new
{
	my ($class) = @_;
	return bless { seen => {}, highest => 0, floor => 0, repeated => 0, low => 0 }, $class;
}

# From here on every token has to be greater than all that were seen.
sub begin_life
{
	my ($self) = @_;
	$self->{floor} = $self->{highest};
	return;
}

# Tokens that came back, in whatever order. Returns the greatest of them.
sub see
{
	my ($self, @tokens) = @_;
	my $greatest = 0;
	foreach my $token (@tokens)
	{
		die "not a token: '$token'\n" if $token !~ /^[1-9]\d*$/;
		$self->{repeated}++ if $self->{seen}{$token}++;
		$self->{low}++ if $token <= $self->{floor};
		$greatest = $token if $token > $greatest;
	}
	$self->{highest} = $greatest if $greatest > $self->{highest};
	return $greatest;
}

sub highest { return $_[0]->{highest}; }
sub count { return scalar keys %{ $_[0]->{seen} }; }

# '0 0': how many tokens came twice, and how many were not above all of the lives before.
sub faults { return "$_[0]->{repeated} $_[0]->{low}"; }

# ---- epochs

sub epoch_of
{
	my ($token) = @_;
	return $token >> 40;
}

# The record of the identity under which the database has issued, and of its lead, as one number.
sub record_of
{
	my ($node, $database) = @_;
	return $node->safe_psql($database || 'postgres', 'SELECT last_value FROM fencing.origin_seq');
}

# draw($session, $count): so many tokens, in order.
sub draw
{
	my ($session, $count) = @_;
	return split /\n/, $session->get("SELECT fencing.next_token() FROM generate_series(1, $count)");
}

# Two checks: the session's statement is refused, and because of the epoch of its token.
sub is_over
{
	my ($session, $statement, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($session->state_of($statement), 'TK001', $name);
	like($session->errors, qr/DETAIL: .*Epoch \d+ of the token has ended: .* is in epoch \d+\.$/m,
		'... and the DETAIL speaks of epochs');
	return;
}

# ---- servers

# standby_of($upstream, $name): a started standby that streams from it. The upstream may be a standby: then
# the base backup $backup of the primary $root has to be there.
sub standby_of
{
	my ($upstream, $name, $root, $backup) = @_;
	my $standby = PostgreSQL::Test::Cluster->new($name);
	if (defined $root)
	{
		$standby->init_from_backup($root, $backup);
		$standby->enable_streaming($upstream);
	}
	else
	{
		$upstream->backup("for-$name");
		$standby->init_from_backup($upstream, "for-$name", has_streaming => 1);
	}
	$standby->start;
	return $standby;
}

# Wait until the standby has replayed all that its upstream has on disk: all that anybody was told.
sub caught_up
{
	my ($upstream, $standby) = @_;
	my $in_recovery = $upstream->safe_psql('postgres', 'SELECT pg_is_in_recovery()') eq 't';
	$upstream->wait_for_catchup($standby, 'replay', $upstream->lsn($in_recovery ? 'replay' : 'flush'));
	return;
}

# The standby receives no more WAL: what its upstream does from now on is lost to it.
sub cut_off
{
	my ($standby) = @_;
	$standby->append_conf('postgresql.conf', "primary_conninfo = ''\n");
	$standby->reload;
	$standby->poll_query_until('postgres', 'SELECT count(*) FROM pg_stat_wal_receiver', '0')
	  or die "the standby still receives WAL\n";
	return;
}

# The upstream is gone, the standby takes over.
sub fail_over
{
	my ($upstream, $standby) = @_;
	$upstream->stop('immediate');
	$standby->promote;
	return;
}

1;
