#pragma once

#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/plan/plan.h"
#include "tests/support/gathering.h"

namespace millrace::test {

/// The same dataset, whose blocks go through bodies that pass `gathering`, which must outlive its pipelines.
inline Dataset with_gathered_bodies(const Dataset& dataset, Gathering& gathering) {
  return dataset.map(BlockFunction{
      .name = "gather", .schema = dataset.plan()->op->schema(), .function = [&gathering](Block block, BufferPool&) {
        gathering.pass();
        return block;
      }});
}

}  // namespace millrace::test
