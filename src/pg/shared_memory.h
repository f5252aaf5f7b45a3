// SPDX-License-Identifier: PostgreSQL
// shared_memory.h: one area of memory that all backends of the server share.
#pragma once

#include "pg/prelude.h"

namespace fencing {

// Called once, when the library loads. `init` makes the area, whose bytes mean nothing before. `name` is new
// whenever the layout is: sessions that have loaded an older library go on beside newer ones.
void register_shared_memory(const char *name, std::size_t size, void (*init)(void *area));

// The area; null where the server gives none: before 17 only to a library in shared_preload_libraries, and not where
// there is no memory. Its first call in a backend wants a running transaction, outside of callbacks at its end.
void *shared_memory();

} // namespace fencing
