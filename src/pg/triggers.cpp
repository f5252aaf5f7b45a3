// SPDX-License-Identifier: PostgreSQL
// triggers.cpp: a trigger as the catalog has it.

#include "pg/triggers.h"

extern "C" {
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_trigger.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
}

namespace fencing {

std::optional<StoredTrigger>
find_trigger(Oid relation, const char *name)
{
	Relation triggers = table_open(TriggerRelationId, AccessShareLock);
	std::optional<StoredTrigger> found;
	ScanKeyData keys[2];
	NameData wanted;

	namestrcpy(&wanted, name);
	ScanKeyInit(&keys[0], Anum_pg_trigger_tgrelid, BTEqualStrategyNumber, F_OIDEQ,
		ObjectIdGetDatum(relation));
	ScanKeyInit(
		&keys[1], Anum_pg_trigger_tgname, BTEqualStrategyNumber, F_NAMEEQ, NameGetDatum(&wanted));

	SysScanDesc scan = systable_beginscan(
		triggers, TriggerRelidNameIndexId, /*indexOK=*/true, /*snapshot=*/nullptr, 2, keys);
	HeapTuple tuple = systable_getnext(scan);

	if (HeapTupleIsValid(tuple)) {
		auto *form = reinterpret_cast<Form_pg_trigger>(GETSTRUCT(tuple));
		bool is_null;
		Datum arguments =
			heap_getattr(tuple, Anum_pg_trigger_tgargs, RelationGetDescr(triggers), &is_null);
		bool has_condition = !heap_attisnull(tuple, Anum_pg_trigger_tgqual, nullptr);

		found =
			StoredTrigger{form->tgfoid, form->tgtype, form->tgenabled, OidIsValid(form->tgparentid),
				form->tgattr.dim1 == 0 && !has_condition, DatumGetByteaPCopy(arguments)};
	}
	systable_endscan(scan);
	table_close(triggers, AccessShareLock);
	return found;
}

} // namespace fencing
