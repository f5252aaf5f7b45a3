# meta.pl TREE: META.json as version 1 of the PGXN Meta Spec wants it, and true of the tree that it lies in.
use strict;
use warnings;

use JSON::PP;

my ($tree) = @ARGV;
die "usage: meta.pl TREE\n" if !defined $tree;
open my $handle, '<', "$tree/META.json" or die "META.json: $!\n";
my $meta = JSON::PP->new->decode(do { local $/ = undef; <$handle> });
my @wrong;

# The prototype: a match that fails is an empty list elsewhere.
sub expect($$)
{
	my ($holds, $what) = @_;
	push @wrong, $what if !$holds;
	return;
}

# The spec: semantic versions of three numbers; terms of at least two characters without slash, backslash, control
# characters; strings that are not empty.
my $semver = qr/\A(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-[0-9A-Za-z-]+)?\z/;
my $term = qr{\A[^\s/\\[:cntrl:]]{2,}\z};
my %known = map { $_ => 1 } qw(name version abstract description maintainer license provides meta-spec tags prereqs
  resources release_status generated_by no_index);
expect($known{$_} || /^x_/i, "nobody knows the key $_") foreach keys %$meta;
expect(($meta->{$_} // '') =~ /\S/, "$_ is missing") foreach qw(abstract maintainer license name version);
expect(ref $meta->{provides} eq 'HASH' && %{ $meta->{provides} }, 'provides nothing');
expect($meta->{name} =~ $term, "name: '$meta->{name}' is no term");
expect($meta->{version} =~ $semver, "version: '$meta->{version}' is no semantic version");
# A name of the list in the spec; the one that PostgreSQL's own licence has.
expect($meta->{license} eq 'postgresql', "license: '$meta->{license}'");
expect(($meta->{release_status} // 'stable') =~ /^(?:stable|testing|unstable)$/, 'release_status');
expect(($meta->{'meta-spec'}{version} // '') =~ /^1\.0\.\d+$/, 'meta-spec: the version');
expect(($meta->{'meta-spec'}{url} // '') eq 'http://pgxn.org/meta/spec.txt', 'meta-spec: the url');
expect(!grep({ !/\S/ || length > 256 || m{[/\\[:cntrl:]]} } @{ $meta->{tags} // [] }), 'tags');
foreach my $phase (values %{ $meta->{prereqs} // {} })
{
	foreach my $relation (values %$phase)
	{
		expect(/\A(?:[<>=!]=?\s*)?[\d.]+\z/, "prereqs: '$_'") foreach values %$relation;
	}
}

foreach my $name (sort keys %{ $meta->{provides} })
{
	my $extension = $meta->{provides}{$name};
	expect(($extension->{version} // '') =~ $semver, "provides $name: the version");
	foreach my $key (qw(file docfile))
	{
		my $file = $extension->{$key};
		expect(defined $file && -f "$tree/$file", "provides $name: $key names no file of the tree");
	}
	my $control = "$tree/$name.control";
	expect(-f $control, "provides $name: there is no $name.control");
}

print "META.json: $_\n" foreach @wrong;
exit(@wrong ? 1 : 0);
