//! A budget where the recipe for many of them belongs.

use tower_composure::Budget;
use tower_composure::keyed::Registry;

fn main() {
    let budgets = Registry::new("hosts", 100, Budget::default());
    let _ = budgets;
}
