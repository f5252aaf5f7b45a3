// SPDX-License-Identifier: PostgreSQL
// catalog.cpp: the extension's own objects, found by name.

#include "pg/catalog.h"

extern "C" {
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

namespace fencing {

namespace {

// Two looks into the catalog caches for each name were some tenth of what a guard adds to
// a write of one row.
struct Known {
	const char *name; // null: free
	Oid relation;
};

Known known[4];

// Counts what the server says about relations.
std::uint64_t changes = 0;

extern "C" void
forget_relation(Datum /*argument*/, Oid relation)
{
	changes++;
	for (Known &entry : known) {
		if (relation == entry.relation || relation == InvalidOid)
			entry = {};
	}
}

Oid
find_relation(const char *name)
{
	Oid schema = get_namespace_oid("fencing", /*missing_ok=*/false);
	Oid relation = get_relname_relid(name, schema);

	if (!OidIsValid(relation))
		ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_TABLE),
				errmsg("relation \"fencing.%s\" does not exist", name)));
	return relation;
}

} // namespace

void
register_catalog()
{
	CacheRegisterRelcacheCallback(forget_relation, Datum(0));
}

Oid
own_relation(const char *name)
{
	Known *room = nullptr;

	for (Known &entry : known) {
		if (entry.name == nullptr)
			room = &entry;
		else if (strcmp(entry.name, name) == 0)
			return entry.relation;
	}

	std::uint64_t before = changes;
	Oid relation = find_relation(name);

	// Nothing would say again that what was found has changed during the look.
	if (room != nullptr && changes == before)
		*room = {name, relation};
	return relation;
}

Oid
own_function(const char *name)
{
	Oid schema = get_namespace_oid("fencing", /*missing_ok=*/false);
	Oid function = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum(name),
		PointerGetDatum(buildoidvector(nullptr, 0)), ObjectIdGetDatum(schema));

	if (!OidIsValid(function))
		ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_FUNCTION),
				errmsg("function fencing.%s() does not exist", name)));
	return function;
}

} // namespace fencing
