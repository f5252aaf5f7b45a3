// SPDX-License-Identifier: PostgreSQL
// module.cpp: magic block and _PG_init: wiring, nothing else.

#include "pg/prelude.h"

#include "claims.h"
#include "epoch.h"
#include "fence_table.h"
#include "pg/catalog.h"
#include "seal.h"
#include "settings.h"
#include "shared_state.h"
#include "wakeup.h"

extern "C" {

// 18 shows name and version in pg_get_loaded_modules() (commit 9324c8c580).
#ifdef PG_MODULE_MAGIC_EXT
PG_MODULE_MAGIC_EXT(.name = "fencing", .version = FENCING_VERSION);
#else
PG_MODULE_MAGIC;
#endif

PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	fencing::settings::define();
	fencing::register_catalog();
	fencing::register_epoch();
	fencing::register_fence_table();
	fencing::register_claims();
	fencing::register_seal();
	fencing::register_shared_state();
	fencing::register_wakeups();
}

} // extern "C"
