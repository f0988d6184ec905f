#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "millrace/ops/arguments.h"
#include "millrace/ops/keep/persisted_elements.h"

namespace millrace {

/// Keeps elements in a directory for later runs: the first run that comes to the end of its input has written them,
/// runs of the same dataset after that read them instead of calculating them. In the directory each dataset has a
/// folder of its own, named by the digest of its operators and files, so that changing something before the snapshot
/// and changing it back calculates nothing twice. (`cache` with a directory has one folder, and writes it anew.) See
/// `PersistedElementsOperator` for the rules.
///
///     records.parse_example(features).map(expensive).snapshot("/scratch/snapshots").shuffle(10'000).repeat()
class SnapshotOperator final : public PersistedElementsOperator {
 public:
  SnapshotOperator(SchemaPtr schema, std::string directory, StreamIdentity identity)
      : PersistedElementsOperator(std::move(schema), "snapshot", std::move(directory), /*one_for_each_digest=*/true,
                                  std::move(identity)) {}
  std::string_view name() const override { return "snapshot"; }
};

/// What `Dataset::snapshot` is called with.
struct SnapshotArguments {
  std::string directory;

  static constexpr auto fields() {
    using A = SnapshotArguments;
    return describe<A>("snapshot", field::speed<&A::directory>.required().as_bytes());
  }
};

}  // namespace millrace
