# 050_upgrade: ALTER EXTENSION fencing UPDATE, from every released version. What comes out is, object by object, what
# CREATE EXTENSION makes; what was granted, guarded, leased and revoked before is as it was, and nobody's tenure has
# ended; the regression passes on it. And before anybody updates, the new library serves the released SQL.
#
# Caught here: an object that only the install or only the upgrade makes, or that they make differently; an upgrade
# that gives PUBLIC back what was revoked, or needs a superuser; a C function that the released SQL names and the
# library has lost.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $members = q((SELECT d.classid, d.objid, d.objsubid FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
	WHERE e.extname = 'fencing' AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'));
my $acl = q((SELECT array_agg(a::text ORDER BY a::text) FROM unnest(%s) AS a));
my $ours = q(('fencing'::regnamespace));

# What the catalogs say of the extension, without the OIDs. Rights are sets.
my %catalog = (
	'the members' => "SELECT pg_describe_object(classid, objid, objsubid) FROM $members AS m ORDER BY 1",
	'what depends on what' => "SELECT pg_describe_object(d.classid, d.objid, d.objsubid),
			pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid), d.deptype
		FROM pg_depend d, pg_identify_object(d.classid, d.objid, d.objsubid) AS i WHERE i.schema = 'fencing'
			OR d.refobjid = $ours OR (d.classid, d.objid) IN (SELECT classid, objid FROM $members AS m) ORDER BY 1, 2, 3",
	'what lies in the schema' => "SELECT pg_describe_object('pg_class'::regclass, oid, 0), relkind FROM pg_class
		WHERE relnamespace = $ours ORDER BY 1",
	'functions' => 'SELECT p.oid::regprocedure, pg_get_functiondef(p.oid), proowner::regrole,
			' . sprintf($acl, 'proacl') . q( AS acl, to_jsonb(p) - '{oid,prorettype,proargtypes,proallargtypes,proargdefaults,proacl,
				pronamespace,prosqlbody}'::text[] AS others
		FROM pg_proc p WHERE pronamespace = ) . "$ours ORDER BY 1",
	'relations' => 'SELECT oid::regclass, relkind, relpersistence, relowner::regrole, reloptions, relrowsecurity,
			relreplident, ' . sprintf($acl, 'relacl') . " AS acl FROM pg_class WHERE relnamespace = $ours ORDER BY 1",
	'columns' => 'SELECT attrelid::regclass, attnum, attname, format_type(atttypid, atttypmod), attcollation::regcollation,
			attnotnull, attstorage, attisdropped, ' . sprintf($acl, 'attacl') . " AS acl, pg_get_expr(adbin, adrelid)
		FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid LEFT JOIN pg_attrdef ON (adrelid, adnum) = (attrelid, attnum)
		WHERE relnamespace = $ours AND attnum > 0 ORDER BY 1, 2",
	'types' => "SELECT oid::regtype, typtype, typowner::regrole, " . sprintf($acl, 'typacl') . " AS acl FROM pg_type
		WHERE typnamespace = $ours ORDER BY oid::regtype::text",
	'views' => "SELECT oid::regclass, pg_get_viewdef(oid) FROM pg_class WHERE relnamespace = $ours AND relkind = 'v' ORDER BY 1",
	'sequences' => "SELECT seqrelid::regclass, seqtypid::regtype, seqstart, seqincrement, seqmin, seqmax, seqcache, seqcycle
		FROM pg_sequence JOIN pg_class c ON c.oid = seqrelid WHERE relnamespace = $ours ORDER BY 1",
	'indexes and constraints' => "SELECT indexrelid::regclass, pg_get_indexdef(indexrelid),
			(SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conindid = indexrelid)
		FROM pg_index JOIN pg_class c ON c.oid = indrelid WHERE relnamespace = $ours ORDER BY 1",
	'triggers' => "SELECT pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
		WHERE relnamespace = $ours ORDER BY 1",
	'the schema' => 'SELECT nspowner::regrole, ' . sprintf($acl, 'nspacl') . " AS acl FROM pg_namespace WHERE oid = $ours",
	'comments' => "SELECT pg_describe_object(classoid, objoid, objsubid), description FROM pg_description
		WHERE (classoid, objoid) IN (SELECT classid, objid FROM $members AS m) ORDER BY 1",
	'the rights that a dump leaves out' => "SELECT pg_describe_object(classoid, objoid, objsubid), privtype,
			" . sprintf($acl, 'initprivs') . " FROM pg_init_privs
		WHERE (classoid, objoid) IN (SELECT classid, objid FROM $members AS m) ORDER BY 1",
	'the extension' => "SELECT extversion, extowner::regrole, extnamespace::regnamespace, extrelocatable,
			(SELECT array_agg((c::regclass, w)::text ORDER BY c::regclass::text) FROM unnest(extconfig, extcondition) AS x(c, w))
		FROM pg_extension WHERE extname = 'fencing'");

my $node = fencing_node('main');
# As the suite of the regression has it.
$node->append_conf('postgresql.conf', "max_prepared_transactions = 2\n");
$node->start;
$node->safe_psql('postgres', 'CREATE ROLE app_owner LOGIN; CREATE ROLE worker LOGIN; CREATE DATABASE fresh OWNER app_owner');

sub session
{
	my ($database, $user) = @_;
	return FencingSession->new($node, dbname => $database, user => $user);
}

session('fresh', 'app_owner')->get('CREATE EXTENSION fencing');
my %fresh = map { $_ => $node->safe_psql('fresh', $catalog{$_}) } keys %catalog;
isnt($fresh{$_}, '', "$_: there is something to compare") foreach grep { $_ ne 'triggers' } sort keys %fresh;

# make, by its own, without the options of the make that may have started this test.
my @names = do
{
	local %ENV = %ENV;
	delete @ENV{qw(MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES)};
	my ($all, $released) = split /\n/, qx(make -s -C "@{[tree_root()]}" regress_names);
	([ split ' ', $all ], [ split ' ', $released ]);
};
cmp_ok(scalar @{ $names[1] }, '>', 30, 'there are tests to run');

# The regression in a database that is there already.
sub regression_passes
{
	my ($server, $database, $tests, $claim) = @_;
	my $output = PostgreSQL::Test::Utils::tempdir();
	my $passed = IPC::Run::run(
		[   $ENV{PG_REGRESS}, '--use-existing', "--dbname=$database", '--host=' . $server->host, '--port=' . $server->port,
			'--inputdir=' . tree_root(), "--outputdir=$output", '--bindir=', @$tests ], '>&', \my $log);
	ok($passed, $claim) or note($log, -e "$output/regression.diffs" ? slurp_file("$output/regression.diffs") : '');
	return;
}

foreach my $version (released_versions())
{
	my $database = "from_$version";
	$node->safe_psql('postgres', qq(CREATE DATABASE "$database" OWNER app_owner));
	my $owner = session($database, 'app_owner');
	my $worker = session($database, 'worker');
	$owner->get($_) foreach (
		"CREATE EXTENSION fencing VERSION '$version'",
		'CREATE TABLE account (id int PRIMARY KEY, balance int, fence_token bigint)',
		'CREATE TABLE shard (id int PRIMARY KEY, fence_token bigint)',
		q(SELECT fencing.protect('account', 'fence_token', resource => 'account:{id}')),
		q(SELECT fencing.protect('shard', 'fence_token', resource => 'shard-{id}', issuer => 'external', mode => 'observe')),
		'GRANT ALL ON account TO worker',
		'GRANT EXECUTE ON FUNCTION fencing.acquire, fencing.renew, fencing.bind TO worker',
		q(SELECT fencing.advance('shard-1', 5000)));
	$node->safe_psql($database, 'REVOKE EXECUTE ON FUNCTION fencing.lookup FROM PUBLIC');
	my $token = $worker->get(q(SELECT token FROM fencing.acquire('account:1', '1 hour', 'worker 1')));
	$worker->get("INSERT INTO account VALUES (1, 100, $token)");
	my %kept = (
		'the fences' => 'SELECT * FROM fencing.fence ORDER BY resource',
		'the sequences' => 'SELECT t.last_value, t.is_called, o.last_value FROM fencing.token_seq t, fencing.origin_seq o',
		'the guards' => 'SELECT tgrelid::regclass, pg_get_triggerdef(oid), tgenabled FROM pg_trigger ORDER BY 1, 2',
		'the rights' => "SELECT p.oid::regprocedure, has_function_privilege('worker', oid, 'EXECUTE') FROM pg_proc p
			WHERE (classid, oid) IN (SELECT classid, objid FROM before) ORDER BY 1" =~ s/\(classid, oid\)/('pg_proc'::regclass, oid)/r);
	$node->safe_psql($database, "CREATE TABLE before AS SELECT * FROM $members AS m");
	my %before = map { $_ => $node->safe_psql($database, $kept{$_}) } keys %kept;

	# With a bound transaction open meanwhile, which is nobody's tenure that ends.
	$worker->get($_) foreach 'BEGIN', "SELECT fencing.bind('account:1', $token)", 'UPDATE account SET balance = 90 WHERE id = 1';
	is($owner->state_of('ALTER EXTENSION fencing UPDATE'), '00000', "$version: the owner of the database updates");
	is($worker->state_of('COMMIT'), '00000', '... a holder that was at work commits');
	is($node->safe_psql($database, $kept{$_}), $before{$_}, "... $_ are as before") foreach sort keys %kept;
	is($worker->get("SELECT fencing.renew('account:1', $token) IS NOT NULL"), 't', '... the lease goes on');
	is($worker->state_of('UPDATE account SET balance = 0 WHERE id = 1'), 'TK002', '... the guard stands');

	# But for what was granted here on purpose, the catalogs are those of a new installation.
	$owner->get($_) foreach (
		'REVOKE EXECUTE ON FUNCTION fencing.acquire, fencing.renew, fencing.bind FROM worker',
		'DROP TABLE account, shard');
	$node->safe_psql($database, 'GRANT EXECUTE ON FUNCTION fencing.lookup TO PUBLIC; DROP TABLE before');
	is($node->safe_psql($database, $catalog{$_}), $fresh{$_}, "$version and fresh: $_") foreach sort keys %catalog;
	$_->close foreach $owner, $worker;

	$node->safe_psql('postgres', q(CREATE DATABASE regression_upgraded));
	$node->safe_psql('regression_upgraded', "CREATE EXTENSION fencing VERSION '$version'; ALTER EXTENSION fencing UPDATE");
	regression_passes($node, 'regression_upgraded', $names[0], "$version, updated: the regression passes");
	$node->safe_psql('postgres', q(DROP DATABASE regression_upgraded));

	# On a server of its own, whose CREATE EXTENSION installs nothing newer in any database.
	my $old = PostgreSQL::Test::Cluster->new("old_$version");
	$old->init;
	$old->append_conf('postgresql.conf', default_version_conf($version) . "max_prepared_transactions = 2\n");
	$old->start;
	$old->safe_psql('postgres', 'CREATE DATABASE regression_released');
	$old->safe_psql('regression_released', 'CREATE EXTENSION fencing');
	is($old->safe_psql('regression_released', q(SELECT extversion FROM pg_extension WHERE extname = 'fencing')), $version,
		"$version: installed under the new library");
	regression_passes($old, 'regression_released', $names[1], '... the regression of what it has passes');
	$old->stop;
}

done_testing();
