#pragma once

#include <string_view>
#include <utility>

#include "millrace/ops/arguments.h"
#include "millrace/ops/batch/group_by_window.h"
#include "millrace/ops/features/map.h"
#include "millrace/ops/flow/filter.h"
#include "millrace/ops/flow/scan.h"
#include "millrace/ops/sources/from_generator.h"

namespace millrace {

/// The registered functions of one kind. Any thread.
template <UserFunction Function>
class FunctionRegistry {
 public:
  static void add(Function function);
  static Function find(std::string_view name);
};

/// Makes a function of yours known by its name to pipeline definitions (PipelineDef), for the whole process: those that
/// are written then name it, and those that are read find it. One of RowFunction, BlockFunction, RowPredicate,
/// BlockPredicate, ScanFunction, DatasetFunction, RowKey, WindowSize and Generator; the functions of a kind have names
/// of their own. Throws `kInvalidArgument` for a name that is empty or taken. Any thread.
///
///     register_function(RowFunction{.name = "decode", .writes = …, .function = …});
template <UserFunction Function>
void register_function(Function function) {
  FunctionRegistry<Function>::add(std::move(function));
}

/// The registered function of this name. Throws `kInvalidArgument` that lists the names there are.
template <UserFunction Function>
[[nodiscard]] Function registered_function(std::string_view name) {
  return FunctionRegistry<Function>::find(name);
}

}  // namespace millrace
