// SPDX-License-Identifier: PostgreSQL
// catalog.h: the extension's own objects, found by name.
//
// Nobody but a superuser can put another object there: the install script makes the schema.
#pragma once

#include "pg/prelude.h"

namespace fencing {

// Called once, when the library loads.
void register_catalog();

// A table or sequence of schema fencing; raises 42P01 when the extension is not installed. The name
// lives as long as the library: what was found is remembered until the server says that the relation
// has changed, which DROP EXTENSION and a rename do.
Oid own_relation(const char *name);

// A function of schema fencing without arguments; raises 42883.
Oid own_function(const char *name);

} // namespace fencing
