// SPDX-License-Identifier: PostgreSQL
// prelude.h: the only door to the server's headers.
//
// Include C++ headers before this one: the server turns snprintf and others into macros, and a
// standard header that comes later would quietly turn them back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

// PostgreSQL 14 and 15 leave this empty, and with hidden visibility even the magic block would
// vanish; from 16 on the server says the same (commit 089480c077, "Default to hidden visibility").
#define PGDLLEXPORT __attribute__((visibility("default")))

extern "C" {
#include "postgres.h"

#include "fmgr.h"
}

#include "pg/compat.h"

// Declares, exports and registers an SQL function; the body follows. A macro, since the server
// looks the symbols up by name. (14 and 15 declare the function without exporting it.)
#define FENCING_FUNCTION(name)                                                                     \
	extern "C" {                                                                                   \
	PGDLLEXPORT Datum name(PG_FUNCTION_ARGS);                                                      \
	PG_FUNCTION_INFO_V1(name);                                                                     \
	}                                                                                              \
	Datum name([[maybe_unused]] FunctionCallInfo fcinfo)

namespace fencing {

// An error of the server leaves a frame by longjmp. Beside each type of ours that may live in such
// a frame stands this, so that no destructor is ever skipped.
template <typename T> constexpr bool survives_longjmp = std::is_trivially_destructible_v<T>;

inline std::string_view
view_of(const text *value)
{
	return {VARDATA_ANY(value), static_cast<std::size_t>(VARSIZE_ANY_EXHDR(value))};
}

} // namespace fencing
