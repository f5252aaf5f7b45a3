// SPDX-License-Identifier: PostgreSQL
// catalog.cpp: the extension's own objects, found by name.

#include "pg/catalog.h"

extern "C" {
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

namespace fencing {

Oid
own_relation(const char *name)
{
	Oid schema = get_namespace_oid("fencing", /*missing_ok=*/false);
	Oid relation = get_relname_relid(name, schema);

	if (!OidIsValid(relation))
		ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_TABLE),
				errmsg("relation \"fencing.%s\" does not exist", name)));
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
