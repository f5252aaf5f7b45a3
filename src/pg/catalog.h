// SPDX-License-Identifier: PostgreSQL
// catalog.h: the extension's own objects, found by name.
//
// Looked up at each call: two hits in the catalog caches cost some 100 ns, and a remembered OID
// would have to be forgotten at DROP EXTENSION, ALTER and restore. Nobody but a superuser can put
// another object there: the install script makes the schema.
#pragma once

#include "pg/prelude.h"

namespace fencing {

// A table or sequence of schema fencing; raises 42P01 when the extension is not installed.
Oid own_relation(const char *name);

// A function of schema fencing without arguments; raises 42883.
Oid own_function(const char *name);

} // namespace fencing
