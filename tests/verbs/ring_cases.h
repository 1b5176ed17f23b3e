// Cases of rings: workers with Soft-RoCE and workers with sockets, with and without a transparent switch between them.
#pragma once

namespace jaxina::guest {

void ring();
void ring_of_devices();
void ring_through_switch();
void ring_with_late_worker();

}  // namespace jaxina::guest
