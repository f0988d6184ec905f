#include "trainer/model.h"

#include "formats/error.h"

namespace millrace {

Predictions Model::predict(const BatchView&, const float*, Workspace&) const {
  throw ErrorException(ErrorCode::kInvalidArgument, "this model predicts nothing");
}

}  // namespace millrace
