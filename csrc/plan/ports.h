// Inputs, outputs and states in the header of a plan.
#pragma once

#include <vector>

#include "json.h"
#include "plan.h"

namespace calib8::plan {

// Each of these throws std::invalid_argument for what no plan has.
std::vector<Port> ports_of(const Json& list);
std::vector<State> states_of(const Json* list, const std::vector<Port>& inputs,
                             const std::vector<Port>& outputs);

// Throws std::invalid_argument("`what`").
void require(bool holds, const std::string& what);

}  // namespace calib8::plan
