use super::*;

// Costs by a rule: a fence costs 100 ns a block, a line `flush` or `nt` ns besides.
fn costs(flush: [f64; 3], nt: f64, nt_fence: f64) -> Costs {
    let mut all = Vec::new();
    for block in BLOCKS {
        let lines = block.0 as f64 / 64.0;
        for (kind, own) in Flush::GENTLEST_FIRST.into_iter().zip(flush) {
            all.push((instruction(Method::Flush(kind)), block, 1, own + 100.0 / lines));
        }
        all.push((Instruction::Nt, block, 1, nt + nt_fence / lines));
    }
    for batch in &BATCHES[1..] {
        for (kind, own) in Flush::GENTLEST_FIRST.into_iter().zip(flush) {
            all.push((instruction(Method::Flush(kind)), BLOCKS[0], *batch, own + 100.0 / f64::from(*batch)));
        }
        all.push((Instruction::Nt, BLOCKS[0], *batch, nt + nt_fence / f64::from(*batch)));
    }
    Costs { all }
}

#[test]
fn the_threshold_lies_where_the_costs_cross() {
    // 20 + 100/n against 5 + 400/n: equal at n = 20 lines, so from 2 KiB on among the sizes.
    let choice = choose(&costs([20.0, 20.0, 150.0], 5.0, 400.0)).unwrap();
    assert_eq!((choice.instruction, choice.nt_threshold), (Flush::Clwb, Some(2048)));
    // By hand: 120, 70, 45, 32.5, 26.25 ns at 1, 2, 4, 8, 16: only 16 is within a tenth of 26.25.
    assert_eq!(choice.batch, 16);
}

#[test]
fn always_never_and_another_instruction() {
    assert_eq!(choose(&costs([20.0, 20.0, 150.0], 5.0, 90.0)).unwrap().nt_threshold, Some(64));
    assert_eq!(choose(&costs([20.0, 20.0, 150.0], 50.0, 400.0)).unwrap().nt_threshold, None);
    let choice = choose(&costs([20.0, 10.0, 150.0], 50.0, 400.0)).unwrap();
    assert_eq!(choice.instruction, Flush::Clflushopt);
    assert_eq!(choose(&Costs::default()), None);
}

#[test]
fn pmdk_takes_the_best_instruction_there_is() {
    assert_eq!(Choice::pmdk(|_| true).instruction, Flush::Clwb);
    assert_eq!(Choice::pmdk(|flush| flush == Flush::Clflush).instruction, Flush::Clflush);
    assert_eq!(Choice::pmdk(|_| true).method(Bytes(255)), Method::Flush(Flush::Clwb));
    assert_eq!(Choice::pmdk(|_| true).method(Bytes(256)), Method::NonTemporal);
}
