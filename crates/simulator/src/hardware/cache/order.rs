//! The order in which up to 16 ways of a set were used, in one number: four bits a place, the
//! youngest way first.

/// A way in each place.
const WAYS: u64 = 0xfedc_ba98_7654_3210;
const ONES: u64 = 0x1111_1111_1111_1111;

/// An order of ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order(pub u64);

impl Order {
    /// The most ways that have an order.
    pub const MOST: u32 = 16;

    /// Way 0 is the youngest.
    pub const fn new() -> Self {
        Self(WAYS)
    }

    // The bits below a way's place.
    #[inline]
    fn below(self, way: u32) -> (u32, u64) {
        let differing = self.0 ^ (ONES * u64::from(way));
        // The first place that is zero is marked; those above it may be without being so.
        let zero = differing.wrapping_sub(ONES) & !differing & (ONES << 3);
        let shift = zero.trailing_zeros() & 60;
        (shift, (1 << shift) - 1)
    }

    /// A way becomes the youngest.
    #[inline]
    pub fn youngest(self, way: u32) -> Self {
        let (shift, below) = self.below(way);
        let above = self.0 & !(below | 0xf << shift);
        Self(above | (self.0 & below) << 4 | u64::from(way))
    }

    /// A way becomes the oldest of so many.
    #[inline]
    pub fn oldest(self, way: u32, ways: u32) -> Self {
        let (_, below) = self.below(way);
        let last = 4 * (ways - 1);
        let beyond = !0 << last << 4;
        let between = (self.0 & !beyond) >> 4 & !below;
        Self(self.0 & (below | beyond) | between | u64::from(way) << last)
    }

    /// The oldest of so many ways becomes the youngest; that way, too.
    #[inline]
    pub fn replace_last(self, ways: u32) -> (Self, u32) {
        let way = self.last(ways);
        let beyond = !0 << (4 * (ways - 1)) << 4;
        (Self(self.0 & beyond | (self.0 << 4 | u64::from(way)) & !beyond), way)
    }

    /// The oldest of so many ways.
    #[inline]
    pub fn last(self, ways: u32) -> u32 {
        (self.0 >> (4 * (ways - 1))) as u32 & 0xf
    }

    /// The oldest of so many ways of a mask that has one of them.
    pub fn last_of(self, ways: u32, mask: u32) -> u32 {
        let from_the_oldest = (1..=ways).rev().map(|ways| self.last(ways));
        from_the_oldest.into_iter().find(|way| mask >> way & 1 != 0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_order_is_a_list(
            ways in 1_u32..=16,
            steps in prop::collection::vec((0_u32..16, any::<bool>()), 0..60),
        ) {
            let mut order = Order::new();
            let mut model: Vec<u32> = (0..ways).collect();
            for (way, young) in steps {
                let way = way % ways;
                model.retain(|other| *other != way);
                if young {
                    order = order.youngest(way);
                    model.insert(0, way);
                } else {
                    order = order.oldest(way, ways);
                    model.push(way);
                }
                prop_assert_eq!(order.last(ways), *model.last().unwrap());
                prop_assert_eq!(order.last_of(ways, 1 << way), way);
                if way % 3 == 0 {
                    model.rotate_right(1);
                    let (replaced, way) = order.replace_last(ways);
                    prop_assert_eq!(way, model[0]);
                    order = replaced;
                }
            }
            let places: Vec<u32> = (1..=ways).map(|ways| order.last(ways)).collect();
            prop_assert_eq!(places, model);
        }
    }
}
