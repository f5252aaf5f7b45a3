// SPDX-License-Identifier: PostgreSQL
// row_resource.h: the resource that a row belongs to, by the template of its guard.
#pragma once

#include "pg/prelude.h"

#include "arguments.h"
#include "core/resource_template.h"

extern "C" {
#include "utils/rel.h"
}

namespace fencing {

// A template made ready for one relation.
struct RowResource {
	core::ResourceTemplate parts;
	struct Column {
		AttrNumber number; // of a piece that is a column
		Oid type;          // beneath any domain
	} columns[core::ResourceTemplate::most_pieces];
};
static_assert(survives_longjmp<RowResource>);

// The name of a resource, with its bytes.
struct ResourceName {
	std::size_t length;
	char bytes[longest_resource];

	std::string_view
	view() const
	{
		return {bytes, length};
	}
};
static_assert(survives_longjmp<ResourceName>);

// Reads the template, which must outlive the result, in memory of its own. Raises 22023 for braces
// that do not match or a name that can only be empty or too long, 42703 for a column that is not
// there, 42P10 for a system or generated one (not computed yet when the guard fires), 42804 for a
// type whose text depends on settings.
RowResource *read_row_resource(Relation relation, std::string_view source, MemoryContext memory);

// Raises 22004 when a column is NULL, 22023 when the name is empty or longer than 512 bytes.
void resource_of_row(const RowResource *resource, TupleTableSlot *row, ResourceName *name);

// For a template without columns.
void resource_without_row(const RowResource *resource, ResourceName *name);

} // namespace fencing
