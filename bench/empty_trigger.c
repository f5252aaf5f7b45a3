/*
 * empty_trigger.c: the floor. A BEFORE UPDATE row trigger that does nothing, so that what is left
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
	PG_RETURN_POINTER(((TriggerData *) fcinfo->context)->tg_newtuple);
}
