#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/ops/batch/group_by_window.h"
#include "millrace/ops/features/map.h"
#include "millrace/ops/flow/filter.h"
#include "millrace/ops/flow/scan.h"
#include "millrace/ops/sources/from_generator.h"

namespace millrace {

struct DatasetFunction;

/// Makes functions of yours known by their names to pipeline definitions (PipelineDef), for the whole process: those
/// that are written then name them, and those that are read find them. The functions of one kind have names of their
/// own. Throws `kInvalidArgument` for a name that is empty or taken. Any thread.
///
///     register_function(RowFunction{.name = "decode", .writes = …, .function = …});
void register_function(RowFunction function);
void register_function(BlockFunction function);
void register_function(RowPredicate predicate);
void register_function(BlockPredicate predicate);
void register_function(ScanFunction function);
void register_function(DatasetFunction function);
void register_function(RowKey key);
void register_function(WindowSize by_key);
void register_function(Generator generator);

/// The registered function of this name. Throws `kInvalidArgument` that lists the names there are.
template <typename Function>
[[nodiscard]] Function registered_function(std::string_view name);
/// Throws `kInvalidArgument` when none of this name is registered.
template <typename Function>
void check_registered(const Function& function);

}  // namespace millrace
