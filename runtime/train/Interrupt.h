// SIGINT and SIGTERM as a flag that the training loop looks at between steps. A second signal of the same kind ends the
// program at once, as without us.
#ifndef MT_RUNTIME_TRAIN_INTERRUPT_H
#define MT_RUNTIME_TRAIN_INTERRUPT_H

namespace mt::train {

/// From now on the two signals set the flag.
void catchInterrupts();
bool interrupted();

} // namespace mt::train
#endif
