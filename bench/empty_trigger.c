/*
 * empty_trigger.c: the floor. A BEFORE row trigger that does nothing, so that what is left
 * is what the server itself asks for any row trigger: the lock on the row, and the call.
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "fmgr.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(empty_trigger);

Datum
empty_trigger(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;

	PG_RETURN_POINTER(TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple : data->tg_trigtuple);
}
